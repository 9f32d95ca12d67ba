"""One file, opened, indexed and read exactly."""
