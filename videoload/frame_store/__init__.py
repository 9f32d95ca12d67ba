"""Scaled frames, kept on a disk. `store` has the files, `clip_frames` fills and reads them."""
