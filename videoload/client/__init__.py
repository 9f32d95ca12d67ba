"""What a training script holds: client, stream, position."""
