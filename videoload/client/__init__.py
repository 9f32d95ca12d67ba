"""The objects of a training script: client, stream, position."""
