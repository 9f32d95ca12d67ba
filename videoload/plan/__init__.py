"""Which clip stands where in the stream."""
