"""``python -m videoload`` is the ``videoload`` command."""

from videoload.cli import main

if __name__ == "__main__":
    main()
