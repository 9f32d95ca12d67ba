"""Pixels from other hosts, past ZeroMQ, straight into the slots."""
