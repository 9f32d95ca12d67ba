"""What coded packets and headers prove, without decoding. Pure."""
