"""What a model says of every window of whole recordings."""
