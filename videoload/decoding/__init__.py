"""Rows become arrays: frames, pixels, audio, stored frames, the user's function."""
