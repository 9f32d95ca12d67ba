"""A file becomes pixels. Nothing outside of this package decodes."""
