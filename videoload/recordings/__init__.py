"""One video file as an array of its frames."""
