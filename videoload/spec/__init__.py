"""What is asked for: which videos, which clips of them, in which order. No decoding, no sockets."""
