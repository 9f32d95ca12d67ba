"""How often loaders give wrong frames: `python -m benchmarks.exam`.

Each loader opens each file, tells how many frames it has, and gives the frames at up to 20 random
places, in ascending order. They are compared with a complete sequential decode by FFmpeg: frame i
is the i-th picture that comes out. Files are the real ones under ``--videos`` (by default the
folder that VIDEOLOAD_AVI names) and small ones of each codec and quirk that FFmpeg's wheel writes.

Conversions to RGB differ. So a frame is wrong only if another frame of its file is clearly nearer
to it than the one that was asked for. A file without any frame is to be refused.

A loader has a process of its own, and one time-out for each file. So what hangs or crashes costs
it that file, and the exam goes on. Loaders are used as their documentation shows for single frames
(`exam_readers`); PyAV and OpenCV promise no exact frames there. They need the extra ``[bench]``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from benchmarks.exam_readers import READERS, Opened, Picture, pictures
from benchmarks.figures import parser, save, table
from tests.support.codecs import all_made

_PLACES = 20
_TIMEOUT_S, _START_S = 30.0, 120.0  # for a file; for the first, with a loader's imports
_SIDE = 48  # a frame is compared at this many rows and columns
# As benchmarks.check: a frame is wrong only if another one is nearer by this share of its
# difference from the right one, and two that differ by less than _ALIKE grey levels are the same.
_NEARER, _ALIKE = 0.25, 0.1
COLUMNS = {  # of the page
    "loader": "{loader}", "right": "{right}", "wrong count": "{wrong_count}",
    "wrong frames": "{wrong_frames}", "missing frames": "{missing_frames}",
}  # fmt: skip
_MODULES = {"OpenCV": "cv2", "PyAV": "av", "SPDL": "spdl", "torchcodec, approximate": "torchcodec"}

Thumbs = npt.NDArray[np.float32]  # [frames, _SIDE, _SIDE]: luma


@dataclass(frozen=True)
class Answer:
    """What became of one file with one loader."""

    file: str
    loader: str
    outcome: str  # "read", "refused", "hung", "crashed"
    true_count: int
    count: int = 0
    places: int = 0
    wrong: int = 0  # frames that are another frame
    missing: int = 0  # frames that did not come
    seconds: float = 0.0
    why: str = ""

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong. A file without a frame is to be refused, or to give none."""
        if self.true_count == 0:
            return self.outcome == "refused" or self.missing == self.places > 0
        faults = self.wrong + self.missing
        return self.outcome == "read" and self.count == self.true_count and not faults


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    asked = parser(__doc__)
    asked.add_argument("--videos", type=Path, default=os.environ.get("VIDEOLOAD_AVI"))
    asked.add_argument("--loader", action="append", choices=READERS)
    asked.add_argument("--no-made", action="store_true", help="real files alone")
    told = asked.parse_args(arguments)
    loaders = [name for name in told.loader or READERS if find_spec(_MODULES.get(name, name))]
    with TemporaryDirectory() as made:
        files = list(_real(told.videos))
        if not told.no_made:
            files += ((kind.name, path) for kind, path in all_made(Path(made)))
        answers = list(examine(files, loaders))
    rows = [
        {"loader": name} | summary([each for each in answers if each.loader == name])
        for name in loaders
    ]
    save(told.json, "exam", [asdict(each) for each in answers], summary=rows)
    print(table(rows, COLUMNS))
    return 0


def _real(folder: Path | None) -> Iterator[tuple[str, Path]]:
    """Real files, by the names under which others can fetch them, where those are known."""
    if folder is None:
        Console(stderr=True).print("no real files: give --videos DIR, or set VIDEOLOAD_AVI")
        return
    facts = folder / "facts.json"
    known = json.loads(facts.read_text()) if facts.exists() else {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in {".avi", ".mp4", ".mov", ".mkv", ".webm"}:
            name = str(path.relative_to(folder))
            origins = known.get(name, {}).get("origins") or [[name]]
            yield ":".join(origins[0][:2]), path


def summary(answers: Sequence[Answer]) -> dict[str, float]:
    """One loader's row."""

    def outcomes(name: str) -> int:
        return sum(each.outcome == name and each.true_count > 0 for each in answers)

    read = [each for each in answers if each.outcome == "read" and each.true_count]
    return {
        "files": len(answers),
        "right": sum(each.is_right for each in answers),
        "wrong_count": sum(each.count != each.true_count for each in read),
        "wrong_frames": sum(each.wrong for each in read),
        "missing_frames": sum(each.missing for each in read),
        "refused": outcomes("refused"),
        "hung": outcomes("hung"),
        "crashed": outcomes("crashed"),
        "seconds": round(sum(each.seconds for each in answers), 1),
    }


def examine(files: Sequence[tuple[str, Path]], loaders: Sequence[str]) -> Iterator[Answer]:
    """Each file with each loader."""
    candidates = {name: _Candidate(name) for name in loaders}
    try:
        for name, path in track(files, "examining", console=Console(stderr=True)):
            truth = _truth(path)
            drawn = random.Random(name)
            asked = sorted(drawn.sample(range(len(truth)), min(_PLACES, len(truth)))) or [0]
            for candidate in candidates.values():
                yield candidate.answer(name, path, truth, asked)
    finally:
        for candidate in candidates.values():
            candidate.stop()


def _truth(path: Path) -> Thumbs:
    """All frames of a file; none if it cannot be opened."""
    try:
        thumbs = [thumb(frame) for frame in pictures(str(path))]
    except OSError:  # FFmpeg's errors are some of these or of ValueError
        thumbs = []
    except ValueError:
        thumbs = []
    return np.stack(thumbs) if thumbs else np.empty((0, _SIDE, _SIDE), np.float32)


def thumb(frame: Picture) -> Thumbs:
    """The luma of a frame at few places."""
    rows, columns = (
        np.minimum((np.arange(_SIDE) + 0.5) * length / _SIDE, length - 1).astype(int)
        for length in frame.shape[:2]
    )
    few = frame[rows[:, None], columns].astype(np.float32)
    luma: Thumbs = few @ np.array([0.299, 0.587, 0.114], np.float32)
    return luma


class _Candidate:
    """One loader, in a process that is made again if a file ends it."""

    def __init__(self, loader: str) -> None:
        self.loader = loader
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.loader, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._is_new = True

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def answer(self, name: str, path: Path, truth: Thumbs, asked: Sequence[int]) -> Answer:
        """Give it a file, and judge what comes."""
        self._pipe.send((str(path), asked))
        limit_s, self._is_new = (_START_S if self._is_new else 0) + _TIMEOUT_S, False
        outcome, why = "hung", f"no answer within {_TIMEOUT_S:.0f} s"
        if self._pipe.poll(limit_s):
            try:
                told = self._pipe.recv()
            except (EOFError, ConnectionError):
                self._process.join()
                outcome, why = "crashed", f"exit status {self._process.exitcode}"
            else:
                return self._judged(name, told, truth, asked)
        self.stop()
        self._start()
        return Answer(name, self.loader, outcome, len(truth), seconds=limit_s, why=why)

    def _judged(self, name: str, told: _Told, truth: Thumbs, asked: Sequence[int]) -> Answer:
        count, thumbs, why, seconds = told
        if thumbs is None:
            return Answer(name, self.loader, "refused", len(truth), seconds=seconds, why=why)
        missing = sum(each is None for each in thumbs)
        wrong = (
            len(thumbs) - missing
            if not len(truth)
            else min(
                sum(
                    each is not None and not is_it(np.rot90(each, turn), truth, ordinal)
                    for each, ordinal in zip(thumbs, asked, strict=True)
                )
                for turn in range(4)  # whether a phone's film is turned is not what is asked
            )
        )
        return Answer(
            name, self.loader, "read", len(truth), count, len(asked), wrong, missing, seconds, why
        )


def is_it(frame: Thumbs, truth: Thumbs, asked: int) -> bool:
    """Whether a frame is the one that was asked for, as far as it can be told."""
    away = np.abs(truth - frame).mean(axis=(1, 2))
    nearest = int(away.argmin())
    apart = np.abs(truth[nearest] - truth[asked]).mean()
    return bool(apart < _ALIKE or away[asked] - away[nearest] <= _NEARER * apart)


_Told = tuple[int, Sequence[Thumbs | None] | None, str, float]  # count, frames, why not, seconds


def _serve(loader: str, pipe: Connection) -> None:
    """Answer in the loader's process."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, sys.stderr.fileno())  # FFmpeg's words on damaged files
    while True:
        try:
            path, asked = pipe.recv()
        except EOFError:
            return
        began = time.monotonic()
        pipe.send((*_taken(loader, path, asked), time.monotonic() - began))


def _taken(
    loader: str, path: str, asked: Sequence[int]
) -> tuple[int, Sequence[Thumbs | None] | None, str]:
    count = 0
    try:
        opened = READERS[loader](path)
        count = opened.length
        frames = opened.frames(asked)
    except Exception as error:
        if not count:
            return 0, None, f"{type(error).__name__}: {error}"[:200]
        opened_again = READERS[loader](path)  # one frame that it refuses hides the others
        return count, [_alone(opened_again, each) for each in asked], str(error)[:200]
    return count, [None if each is None else thumb(each) for each in frames], ""


def _alone(opened: Opened, ordinal: int) -> Thumbs | None:
    try:
        (frame,) = opened.frames([ordinal])
    except Exception:
        return None
    return None if frame is None else thumb(frame)


if __name__ == "__main__":
    sys.exit(main())
