"""The ``videoload`` command, and ``python -m videoload``."""

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

_STATUS = 128 + signal.SIGINT


def main() -> None:
    """Run the console entry point. It imports the commands here, to handle Ctrl-C meanwhile."""
    try:
        from videoload.tools.cli import main as run

        run()
    except KeyboardInterrupt:
        _end()
    except SystemExit as end:
        if end.code == _STATUS:
            _end()
        raise


def _end() -> NoReturn:
    """End the process after Ctrl-C. The interpreter's own end would wait for threads of a user's
    model, and destroys all objects: 0.1 s of a core, which takes seconds on a busy host."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            stream.flush()
    os._exit(_STATUS)


if __name__ == "__main__":
    main()
