"""Which videos of a stream are bad, what replaces their clips, and when they are too many.

The substitute for a sample follows from (seed, epoch, sample) alone. To know that a video is bad
only saves the attempt to decode it: the attempt would fail and lead to the same substitute. A video
may also be damaged at one place only, or a function may fail at some draws. Such a video is listed
and counted like any other, but each of its clips is tried.

Where a stream stops follows from its batches alone, too. Clips are decoded ahead, so a video may be
known to be bad long before a serial run would reach it. Therefore a bad file counts from the
earliest step at which one of its clips was replaced. The stream stops when it hands over the first
step up to which too many files are bad (`due`), not when they are found (`add`).

A row of the catalog is called a video here. A file may hold many: segments, or the episodes of a
robot. It is one bad file, and the log and the figures count its bad rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from videoload.catalog.catalog import Catalog
from videoload.errors import (
    BadVideo,
    Fault,
    SpecError,
    TooManyBadVideos,
    VideoError,
    VideoloadError,
    named,
    printable,
)
from videoload.logs import Log, is_logged
from videoload.plan.batches import Sample
from videoload.plan.options import CheckedOptions
from videoload.plan.plan import Plan

_log = Log(__name__)
_LOGGED = 100  # bad videos, each in a line; later ones by `is_logged`
_ALWAYS_ALLOWED = 3  # In a small catalog, one per cent is less than one video.
# A chain of substitutes ends after this many per video. If a single video were good, the chain
# would reach it before that in all but two of 10^9 cases.
_ATTEMPTS = 20


class Quarantine:
    """The bad videos of one stream.

    Attributes:
        limit: How many bad files the stream survives.
        skips: A clip that cannot be decoded is left out, and nothing replaces it.
        reasons: Why clips of videos, by catalog index, are not there.
    """

    def __init__(
        self, catalog: Catalog, plan: Plan, options: CheckedOptions, *, judges: bool = True
    ) -> None:
        """Unless it ``judges``, the reasons are noted for who reads the rows, and that is all."""
        self._catalog = catalog
        self._plan = plan
        self._raise = options["on_error"] == "raise"
        self._judges = judges
        self.skips = options["on_error"] == "skip"
        self.limit = max(_ALWAYS_ALLOWED, int(options["max_bad"] * catalog.files))
        # Videos, by catalog index, without a clip that can be decoded: True if they are bad, False
        # if they are only dropped as short.
        self._avoided: dict[int, bool] = {}
        self.reasons: dict[int, str] = {}
        self._reasons: dict[str, str] = {}
        self._bad: set[int] = set()  # catalog indices
        self._rows: Counter[str] = Counter()  # bad ones of each file
        # Where a clip of each bad file was first replaced: step, row, attempt.
        self._met: dict[str, tuple[int, int, int]] = {}

    @property
    def videos(self) -> list[BadVideo]:
        """The bad videos, in the order in which they were found. May be read in any thread."""
        return [BadVideo(*bad) for bad in self._reasons.copy().items()]  # It may grow meanwhile.

    @property
    def rows(self) -> list[int]:
        """The bad rows of the catalog, in increasing order. May be read in any thread."""
        return sorted(self._bad.copy())

    @property
    def avoids(self) -> bool:
        """Whether clips of some videos are replaced or left out."""
        return bool(self._avoided)

    def add(self, video: int, reason: str, fault: Fault = Fault.VIDEO) -> None:
        """Note that catalog entry ``video`` cannot be decoded. Raises an error if no other video is
        left to replace it."""
        path, dropped = self.path_of(video), fault is Fault.SHORT
        self.reasons.setdefault(video, reason)
        if fault is not Fault.CLIP:
            self._avoided[video] = self._avoided.get(video, False) or not dropped
        if not dropped and video not in self._bad:
            self._bad.add(video)
            self._rows[path] += 1
            self._reasons.setdefault(path, reason)
            # More may be found while the error is on its way. They are not logged.
            if self._judges and not self._raise and len(self._reasons) <= self.limit + 1:
                self._log_bad(path, self._rows[path], reason)
        if self._exhausted and not self.skips:
            raise self._nothing_left(reason)

    def path_of(self, video: int) -> str:
        """Return the path of a video, as its catalog has it."""
        return self._catalog[video].path

    def due(
        self, step: int, samples: Sequence[Sample], *, complete: bool = True
    ) -> VideoloadError | None:
        """Return the error with which the stream stops before it hands over batch ``step``, or
        None.

        ``samples`` make up the batch; if it is not ``complete``, they are its first ones.
        """
        if not self._judges or not (self._avoided or self._reasons):
            return None
        for row, attempt, video in self._replaced(step, samples, complete=complete):
            if self._avoided.get(video, True):
                path, at = self.path_of(video), (step, row, attempt)
                self._met[path] = min(at, self._met.get(path, at))
        limit = 0 if self._raise else self.limit
        if len(self._met) > limit:
            met = sorted((at, path) for path, at in self._met.items() if at[0] <= step)
            bad = [BadVideo(path, self._reasons[path]) for _, path in met[: limit + 1]]
            if len(bad) > limit:
                return VideoError(*bad[0]) if self._raise else self._too_many(bad)
        return self._nothing_left("") if self._exhausted and complete else None

    def kept(self, samples: list[Sample]) -> list[Sample]:
        """Return the samples to decode: if bad clips are left out, those that are not known to be
        bad."""
        if not self.skips:
            return samples
        return [sample for sample in samples if sample.video not in self._avoided]

    def replace(self, sample: Sample) -> Sample:
        """Return the sample itself, or the first of its substitutes that is not known to be bad."""
        if self.skips or self._exhausted:
            return sample
        while sample.video in self._avoided:
            sample = self._plan.substitute(sample)
        return sample

    def instead_of(self, sample: Sample) -> Sample:
        """Return the substitute for a sample that could not be decoded. Raises an error if nothing
        seems to be left."""
        sample = self._plan.substitute(sample)
        if sample.substitution > _ATTEMPTS * (self._plan.videos + 10):
            raise self._nothing_left("")
        return self.replace(sample)

    @property
    def _exhausted(self) -> bool:
        return len(self._avoided) == self._plan.videos

    def _nothing_left(self, reason: str) -> VideoloadError:
        if not self._reasons:
            total = len(self._catalog)
            return SpecError(f'short="drop" leaves none of {total} videos: {reason}'.rstrip(": "))
        return VideoError(*self.videos[0]) if self._raise else self._too_many(self.videos)

    def _too_many(self, bad: list[BadVideo]) -> TooManyBadVideos:
        return TooManyBadVideos(bad, self.limit, self._catalog.files)

    def _log_bad(self, path: str, rows: int, reason: str) -> None:
        """Log a bad file, and its first further rows, each with its own reason."""
        if rows == 1:
            instead = "its clips are left out" if self.skips else "other clips replace it"
            is_due = is_logged(len(self._reasons), _LOGGED)
        else:
            instead = f"{rows} rows of this file are lost by now"
            is_due = is_logged(rows)
        if is_due:
            _log.warning("bad video %s: %s; %s", named(path), printable(reason), instead)

    def _replaced(
        self, step: int, samples: Sequence[Sample], *, complete: bool
    ) -> Iterator[tuple[int, int, int]]:
        """(row, attempt, video) of each clip that was planned for the batch and is not in it."""
        if self.skips:
            taken = iter(samples)
            following = next(taken, None)
            for row, planned in enumerate(self._plan[step]):
                if following is not None and _row(planned) == _row(following):
                    following = next(taken, None)
                elif following is not None or complete:
                    yield row, 0, planned.video
        elif any(sample.substitution for sample in samples):
            for row, (at, end) in enumerate(zip(self._plan[step], samples, strict=False)):
                while at.substitution < end.substitution:
                    yield row, at.substitution, at.video
                    at = self._plan.substitute(at)  # noqa: PLW2901 - along the chain


def _row(sample: Sample) -> tuple[int, int]:
    """Return the position of a sample among the others of its batch."""
    return sample.origin, sample.crop
