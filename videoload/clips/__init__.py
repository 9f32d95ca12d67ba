"""What one sample is: which frames, which part of them, which pixels."""
