"""A worker that reports, rests and dials again sooner than usual, for tests that wait for it.

    python -m tests.support.impatient_worker tcp://HOST:PORT[,...] ROOT [--keys DIR] [--hosts FILE]

With ``--hosts``, each name stands for the addresses that the file has at that moment. Without it,
names are resolved as usual.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

from videoload.transport.private_messages import WorkerSettings
from videoload.worker.worker import serve

SOON_S = 0.5


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trainers")
    parser.add_argument("root")
    parser.add_argument("--keys")
    parser.add_argument("--hosts", type=Path)
    asked = parser.parse_args()

    def resolve(name: str) -> list[str]:
        if asked.hosts is None:
            threading.Event().wait()
        port = urlsplit(name).port
        return [f"tcp://{host}:{port}" for host in asked.hosts.read_text().split()]

    with mock.patch("videoload.storage.stores.GIVE_UP_S", SOON_S), mock.patch.multiple(
        "videoload.worker.trainers", _RESOLVE_S=SOON_S, UNREACHABLE_S=SOON_S
    ), mock.patch.multiple(
        "videoload.worker.trainer_connection",
        _PAUSE_S=0.1, _MAX_PAUSE_S=0.1, _WELCOME_S=SOON_S, UNREACHABLE_S=SOON_S,
    ):  # fmt: skip
        settings = WorkerSettings(
            asked.trainers.split(","), root=asked.root, keys=asked.keys, insecure=not asked.keys
        )
        serve(settings, resolve=resolve)


if __name__ == "__main__":
    main()
