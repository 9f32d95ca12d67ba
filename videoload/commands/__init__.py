"""What a person types: the ``videoload`` command."""
