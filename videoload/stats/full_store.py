"""What a frame store lacks that is full. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import Spec
from videoload.stats.work import Work

_SOME = 0.01  # of the clips: below that, nothing is said


@dataclass(frozen=True, slots=True)
class FullStore:
    """A frame store that has no room for all frames of a stream. ``print`` says what that means.

    Attributes:
        share: Share of the clips, 0 to 1, whose videos have no room: they are decoded each time.
        needed_gb: What a store of all frames takes, by the videos met so far. 0 if not known.
        given_gb: The limit of the store, of each host that has one. 0 if it has none of its own.
        resize: The `ClipSpec`'s.
    """

    share: float
    needed_gb: float
    given_gb: float
    resize: int | None

    def __str__(self) -> str:
        size = "" if self.resize is None else f" at resize={self.resize}"
        needs = f"these videos need about {_size(self.needed_gb)}{size}, " * (self.needed_gb > 0)
        gives = f"{_size(self.given_gb)} are given, " * (self.given_gb > 0)
        so = "so " * bool(needs or gives)
        return (
            f"The frame store is full: {needs}{gives}{so}{self.share:.0%} of the clips are decoded "
            "each time."
        )


class StoreNeed:
    """What the frames of a stream need."""

    def __init__(self, paths: Callable[[], Sequence[str]], spec: Spec) -> None:
        """``paths`` gives the path of each item of the catalog."""
        self._paths, self._spec = paths, spec
        self._places: int | None = None

    def lacking(self, work: Work) -> FullStore | None:
        """What the store lacks, by what workers report. None: it has room."""
        spec, clips = self._spec, work.no_room
        if not isinstance(spec, ClipSpec) or clips <= _SOME * work.clips:
            return None
        if self._places is None:  # rarely needed, and takes a while
            self._places = _places(self._paths(), spec)
        needed_gb, given_gb = (
            size / clips / 1e9 for size in (work.needed_bytes * self._places, work.given_bytes)
        )
        return FullStore(clips / work.clips, needed_gb, given_gb, spec.resize)


def _places(paths: Sequence[str], spec: ClipSpec) -> int:
    """How many times the frames are kept that a clip's worker reports the size of."""
    if spec.sampling in ("random", "dense"):  # all frames of its video
        return len(set(paths))
    return len(paths) * spec.clips_per_video


def _size(gb: float) -> str:
    value, unit = (gb, "GB") if gb >= 1 else (1e3 * gb, "MB")
    return f"{value:.{0 if value >= 10 else 1}f} {unit}"
