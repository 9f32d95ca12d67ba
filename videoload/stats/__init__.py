"""What a stream did, and what holds the training back. Pure but for one lock."""
