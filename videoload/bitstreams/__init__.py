"""Parsers of coded packets and headers: prove frame counts and orders without decoding. Pure."""
