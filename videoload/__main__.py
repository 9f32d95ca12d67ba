"""``python -m videoload`` is the ``videoload`` command."""

from videoload.commands.cli import main

if __name__ == "__main__":
    main()
