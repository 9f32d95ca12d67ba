"""``videoload worker`` in this process, without a supervisor: a test stops and kills the worker by
the id of the process, and nobody replaces it.

    python -m tests.support.lone_worker worker --connect tcp://HOST:PORT --root ROOT ...
"""

from typing import Any
from unittest import mock

from videoload.tools import cli
from videoload.wire.private_messages import WorkerSettings
from videoload.worker import keep_running
from videoload.worker.worker import serve


def main() -> None:
    """The command line."""
    with mock.patch.object(keep_running, "keep_running", _serve):
        cli.main()


def _serve(workers: int, settings: WorkerSettings, **_: Any) -> int:
    serve(settings)
    return 0


if __name__ == "__main__":
    main()
