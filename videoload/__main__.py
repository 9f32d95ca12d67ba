"""The ``videoload`` command, and ``python -m videoload``."""

import signal
import sys


def main() -> None:
    """The console entry point. All that a command imports is imported here, since Ctrl-C may come
    before there is a command."""
    try:
        from videoload.commands.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
