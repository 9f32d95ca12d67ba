"""One decoded frame becomes pixels in the caller's buffer: cut, scaled, converted, flipped."""
