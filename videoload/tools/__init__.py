"""What people run over a whole set, and type: scan, index, predict, evaluate, demo."""
