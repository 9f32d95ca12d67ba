"""The order of a stream: which clip comes where, and what replaces a bad one."""
