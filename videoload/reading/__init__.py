"""One open file: its packets, its decoder, and the frames that come out."""
