"""The ``videoload`` command, and ``python -m videoload``."""

import signal
import sys


def main() -> None:
    """Run the console entry point. It imports the commands here, to handle Ctrl-C meanwhile."""
    try:
        from videoload.tools.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
