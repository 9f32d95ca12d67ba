"""Frames become pixels in the caller's buffer. Start at `decoder`; `scaling` writes the pixels."""
