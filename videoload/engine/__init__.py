"""The I/O thread of a client, and what it owns. Start at `engine`."""
