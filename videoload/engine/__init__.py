"""The I/O thread of a client, what it owns, and the figures of its streams."""
