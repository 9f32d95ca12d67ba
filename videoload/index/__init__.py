"""What is known of a video file: its frames, and where decoding can start. Start at `index`."""
