"""What is in a catalog's files: every file decoded once, and what that means for a training."""
