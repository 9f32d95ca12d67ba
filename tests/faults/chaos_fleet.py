"""The videos and the workers of `tests.faults.chaos`, in the right place and in wrong ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.chaos_script import (
    EMPTY_ROOT,
    HALF_ROOT,
    ROLES,
    WRONG_ROOT,
)
from tests.support.forked import Forked, Forking
from tests.support.processes import children_of
from tests.support.programs import COMMANDS
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec
from videoload.engine import listener
from videoload.transport.sockets import Router

PROJECT = Path(__file__).parents[2]
BATCH = 4
LOCALS = 2
PATIENCE_S = 30 * SECOND  # the longest that anything here waits


def make_videos(root: Path) -> Catalog:
    """Small good videos of three codecs, and two bad ones."""
    for number in range(26):
        codec, pixels = [("mpeg4", "yuv420p"), ("mjpeg", "yuvj420p")][number % 4 == 3]
        make_avi(
            root / f"{'ab'[number % 2]}/{number:02}.avi",
            frames=14 + 3 * number, codec=codec, pixels=pixels, size=(40, 40 + 2 * (number % 5)),
            b_frames=2 * (number % 3 == 1 and codec == "mpeg4"), seed=number,
        )  # fmt: skip
    good = (root / "a/00.avi").read_bytes()
    (root / "a/header.avi").write_bytes(good[:700])
    (root / "b/text.avi").write_text("not a video\n" * 100)
    return Catalog.from_folder(root)


BAD = {"a/header.avi", "b/text.avi"}


def make_roots(videos: Path, folder: Path) -> dict[str, Path]:
    """The roots of workers that were started in the wrong place."""
    roots = {what: folder / what for what in (WRONG_ROOT, EMPTY_ROOT, HALF_ROOT)}
    for root in roots.values():
        root.mkdir(parents=True)
    for number, path in enumerate(sorted(videos.rglob("*.avi"))):
        name = path.relative_to(videos)
        # Other pictures under the same names. In the half-copied root, a third of the files is
        # complete and a third is cut off.
        make_avi(roots[WRONG_ROOT] / name, frames=60, size=(40, 48), seed=1000 + number)
        if number % 3:
            copy = roots[HALF_ROOT] / name
            copy.parent.mkdir(exist_ok=True)
            data = path.read_bytes()
            copy.write_bytes(data if number % 3 == 1 else data[: len(data) // 2])
    return roots


def clip_of(epoch_batches: int, videos: int) -> ClipSpec:
    """Clips of 4 frames of 32x32, with as many of each video as an epoch of about this length
    needs."""
    return ClipSpec(
        frames=4, stride=2, resize=36, size=(32, 32), crop="random", flip=True,
        sampling="random", clips_per_video=max(1, epoch_batches * BATCH // videos),
    )  # fmt: skip


def samples_of(batch: Any) -> Iterator[tuple[int, bytes]]:
    """What identifies a sample of a batch: its video and its frames."""
    info = batch[2]
    for video, frames in zip(info.video, info.frames, strict=True):
        yield int(video), frames.tobytes()


@contextmanager
def keys_at(address: str) -> Iterator[None]:
    """Gives the client keys only for ``address``. At its other loopback addresses it then takes
    workers without keys."""

    def router(context: Any, endpoint: str, *, keys: Any = None, **options: Any) -> Router:
        if endpoint != address:
            keys, options = None, {**options, "admits": None}
        return Router(context, endpoint, keys=keys, **options)

    with mock.patch.object(listener, "Router", router):
        yield


def start(forking: Forking, log: Path, *words: str, module: str = "videoload") -> Forked:
    """``python -m videoload words``, or another module."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with log.open("ab") as out:
        return forking.start(COMMANDS, ["-m", module, *words], out, out, env=environment)


class Fleet:
    """The workers that dial in, by role, and the process ids of all workers."""

    def __init__(
        self,
        client: Client,
        root: Path,
        log: Path,
        stack: ExitStack,
        forking: Forking,
        shared: tuple[str, ...] = (),
    ) -> None:
        """``shared``: further arguments of all that dial in."""
        self._shared = shared
        self._forking = forking
        self._client = client
        self._root = root
        self._log = log
        self._dial: dict[str, tuple[str, ...]] = {}
        self._roots: dict[str, Path] = {}
        self._all: list[Forked] = []
        self.by_role: dict[str, Forked] = {}
        stack.callback(self._end)

    def can(self, role: str, *dial: str, root: Path | None = None) -> None:
        """How a role is started: the arguments after ``videoload worker``, and its root if that is
        not the videos."""
        self._dial[role] = dial
        self._roots[role] = root or self._root

    def start(self, role: str) -> None:
        """Start (again) the worker of a role."""
        words = ("worker", "--root", str(self._roots[role]), *self._dial[role], *self._shared)
        worker = start(self._forking, self._log, *words, module="tests.support.lone_worker")
        self._all.append(worker)
        self.by_role[role] = worker

    def reap(self) -> None:
        """Forget the workers that have ended."""
        self._all = [worker for worker in self._all if worker.poll() is None]

    def connected(self) -> set[int]:
        """Process ids of all workers that the client knows."""
        return {stats.pid for stats in self._client.workers}

    def local(self) -> list[int]:
        """The local workers that are connected."""
        return sorted(self.connected() & {*children_of(os.getpid())})

    def everybody(self) -> set[int]:
        """All workers, and whatever else this process has started."""
        return {*children_of(os.getpid()), *(worker.pid for worker in self._all)}

    def pid(self, role: str) -> int | None:
        """The worker of a role, if it is connected."""
        worker = self.by_role[role]
        there = worker.poll() is None and worker.pid in self.connected()
        return worker.pid if there else None

    def complete(self, roles: tuple[str, ...] = ROLES) -> bool:
        """Whether exactly the workers that should be there are there."""
        self.reap()
        wanted = {self.by_role[role].pid for role in roles}
        return self.connected() == wanted | {*self.local()} and len(self.local()) == LOCALS

    def see_off_guests(self) -> None:
        """Tell the guests to leave, and wait for them and for the guests that were told before."""
        staying = [self.by_role[role] for role in ROLES]
        guests = [worker for worker in self._all if worker not in staying]
        for guest in guests:
            guest.send_signal(signal.SIGTERM)
        for guest in guests:
            guest.wait(PATIENCE_S)

    def _end(self) -> None:
        for worker in self._all:
            worker.kill()
            worker.wait()
