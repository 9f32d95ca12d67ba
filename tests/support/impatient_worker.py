"""A worker that reports, rests and dials again sooner than usual, for tests that wait for it.

python -m tests.support.impatient_worker tcp://HOST:PORT[,...] ROOT [KEYS]
"""

import sys
from unittest import mock

from videoload.wire.private_messages import WorkerSettings
from videoload.worker.worker import serve

SOON_S = 0.5


def main(trainers: str, root: str, keys: str | None = None) -> None:
    """The command line."""
    with mock.patch("videoload.storage.stores.GIVE_UP_S", SOON_S), mock.patch.multiple(
        "videoload.worker.trainers", _RESOLVE_S=SOON_S, UNREACHABLE_S=SOON_S,
        _PAUSE_S=0.1, _MAX_PAUSE_S=0.1, WELCOME_S=SOON_S,
    ):  # fmt: skip
        serve(WorkerSettings(trainers.split(","), root=root, keys=keys, insecure=not keys))


if __name__ == "__main__":
    main(*sys.argv[1:])
