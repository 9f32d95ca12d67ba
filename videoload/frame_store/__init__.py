"""Scaled frames, kept on a disk. `store` has the files; `keeper` fills and reads them."""
