"""Which videos there are, and the label of each."""
