"""The order of a stream: which clip stands where, and what replaces a bad one."""
