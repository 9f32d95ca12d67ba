"""The kill test: what loaders do when something around them fails. See `__main__`."""
