"""The trainer of the example deployment."""
