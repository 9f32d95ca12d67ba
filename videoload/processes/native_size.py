"""The native size of a catalog's videos, looked up in a process of its own: a file that crashes
FFmpeg must not take the trainer along.

    trainer                               child, `python -m videoload.processes.native_size FD`
      the root, the cache, the paths ──>
                                     <──  for each path in turn, until one can be decoded: its
                                          (width, height), or why it cannot; null: still at it

It is the size of the first video that can be decoded, as in `decoding.decoder.native_size`. A file
that ends the child is passed over, and another child goes on behind it. One at which the child
falls silent may be on a storage that is slow just now: to pass it over would give the stream
another size from one run to the next, so that is an error.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Generator
from contextlib import closing, suppress
from fractions import Fraction
from itertools import islice

from videoload import native
from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import TRIED_FOR_SIZE, ClipSpec, VideoInfo
from videoload.errors import SpecError, StorageError, VideoError, WorkerError
from videoload.processes.supervisor import start

_log = logging.getLogger(__name__)

_BEAT_S = 0.25
_START_S = 30.0  # for its imports


def native_size(
    catalog: Catalog, spec: ClipSpec, *, silence_s: float, cache: str | None
) -> ClipSpec:
    """The spec with the size that the catalog's first good video gives it.

    ``cache`` is the folder of an `IndexCache`. Raises SpecError where the catalog has no
    root; VideoError if none of the first ones can be decoded, or nothing comes of one for
    ``silence_s``; StorageError if the root does not answer; WorkerError if no process can be
    started.
    """
    if catalog.root is None:
        raise SpecError("size=None needs the videos on this host (root=); give size=")
    paths = [video.path for video in islice(catalog, TRIED_FOR_SIZE)]
    failed = None
    while paths:
        with closing(_ask(str(catalog.root), cache, paths, silence_s)) as answers:
            for answer in answers:
                path = paths.pop(0)
                if not isinstance(answer, str):
                    return spec.at_native_size(*answer.shown_size(spec))
                failed = VideoError(path, answer)
    assert failed is not None
    raise failed


def _ask(
    root: str, cache: str | None, paths: list[str], silence_s: float
) -> Generator[VideoInfo | str, None, None]:
    """What a child finds out of each path, as long as it lives."""
    mine, theirs = socket.socketpair()
    child = start("videoload.processes.native_size", theirs)
    try:
        mine.settimeout(_START_S)
        lines = mine.makefile("rwb")
        with mine, lines:
            lines.write(json.dumps([root, cache, paths]).encode() + b"\n")
            lines.flush()
            for path in list(paths):
                answer = None
                while answer is None:
                    try:
                        line = lines.readline()
                    except TimeoutError:
                        reason = f"nothing came of it for {mine.gettimeout():g} s: give size="
                        raise VideoError(path, reason) from None
                    if not line.endswith(b"\n"):
                        yield _ended(child.wait(silence_s), path)
                        return
                    answer = json.loads(line)
                    mine.settimeout(silence_s)
                if isinstance(answer, dict):
                    raise StorageError(answer["storage"])
                yield answer if isinstance(answer, str) else _info(answer)
    finally:
        child.kill()
        child.wait(silence_s)


def _told(info: VideoInfo) -> list[int]:
    """What the child says of a video."""
    return [info.width, info.height, info.turns, *info.aspect.as_integer_ratio()]


def _info(told: list[int]) -> VideoInfo:
    """What the trainer makes of it: all that a size depends on."""
    width, height, turns, *aspect = told
    return VideoInfo(0, Fraction(0), width, height, turns, Fraction(*aspect))


def _ended(status: int, path: str) -> str:
    """Why a file has no size whose decoding ended the child."""
    if status >= 0:  # no crash: it cannot run here
        raise WorkerError(
            f"the process that looks up the native size gave up with exit status {status}; see "
            "what it printed, or give size="
        )
    reason = f"its decoding ended the decoder (status {status})"
    _log.warning("%s: %s", path, reason)
    return reason


def _serve(trainer: socket.socket) -> None:
    """The child."""
    from videoload.decoding.decoder import Decoder

    native.limit_memory()
    with suppress(OSError), trainer.makefile("rwb") as lines:
        if not (asked := lines.readline()):
            return  # the trainer has gone
        root, cache, paths = json.loads(asked)
        decoder = Decoder(root, cache=cache)
        said = time.monotonic()

        def say(answer: list[int] | str | dict[str, str] | None) -> None:
            nonlocal said
            lines.write(json.dumps(answer).encode() + b"\n")
            lines.flush()
            said = time.monotonic()

        def tick() -> None:
            if time.monotonic() - said > _BEAT_S:
                say(None)

        say(None)
        for path in paths:
            try:
                info = decoder.index(path, tick).info
            except VideoError as error:
                say(error.reason)
                continue
            except StorageError as error:
                say({"storage": str(error)})
                return
            say(_told(info))
            return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    native.die_with_parent()
    _serve(socket.socket(fileno=int(sys.argv[1])))
