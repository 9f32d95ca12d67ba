"""What may be said of a stream, beside its catalog and its clip spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from videoload.arguments import real, whole
from videoload.errors import SpecError

OnError = Literal["substitute", "skip", "raise"]
Balance = Literal["class"] | Sequence[float] | npt.NDArray[Any]  # a weight for each row


class StreamArguments(TypedDict, total=False):
    """The keyword arguments that `Client.stream` and `decode_serially` have in common, for type
    checkers. A test compares them with the two signatures and with `StreamOptions`."""

    shuffle: bool
    seed: int
    shard: tuple[int, int]
    drop_remainder: bool | None
    ordered: bool
    on_error: OnError
    max_bad: float
    balance: Balance | None
    buckets: Sequence[int] | None
    batch_frames: int | None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream, checked: see `Client.stream`. Raises SpecError. ``drop_remainder``
    is a bool once it is made."""

    batch_size: int | None = None
    shuffle: bool = False
    seed: int = 0
    shard: tuple[int, int] = (0, 1)
    drop_remainder: bool | None = None
    ordered: bool = True
    on_error: OnError = "substitute"
    max_bad: float = 0.01
    balance: Balance | None = None
    buckets: Sequence[int] | None = None
    batch_frames: int | None = None

    def __post_init__(self) -> None:
        try:
            rank, world = (whole("shard", part, None) for part in self.shard)
        except (TypeError, ValueError):  # SpecError is a ValueError.
            rank = world = -1
        if not 0 <= rank < world:
            raise SpecError(
                f"shard must be (rank, world) with 0 <= rank < world, got {self.shard!r}"
            )
        if self.on_error not in get_args(OnError):
            raise SpecError(
                f'on_error must be "substitute", "skip" or "raise", got {self.on_error!r}'
            )
        if self.balance is not None:
            object.__setattr__(self, "balance", _balance(self.balance))
        if (self.batch_size is None) == (self.batch_frames is None):
            raise SpecError("give batch_size (clips), or batch_frames (frames of all its clips)")
        size = "batch_size" if self.batch_frames is None else "batch_frames"
        for name, value in (
            (size, whole(size, getattr(self, size))),
            ("buckets", None if self.buckets is None else _rising(self.buckets)),
            ("seed", whole("seed", self.seed, None)),
            ("shard", (rank, world)),
            ("max_bad", real("max_bad", self.max_bad, 0, 1, what="a share")),
        ):
            object.__setattr__(self, name, value)
        if self.drop_remainder is None:
            object.__setattr__(self, "drop_remainder", self.shuffle)
        for name in ("shuffle", "drop_remainder", "ordered"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise SpecError(f"{name} must be True or False, got {getattr(self, name)!r}")
            object.__setattr__(self, name, bool(getattr(self, name)))

    def clips_of(self, frames: int) -> int:
        """Clips in a batch, if each has so many frames."""
        return self.batch_size or max(1, (self.batch_frames or 1) // frames)


def _rising(buckets: Sequence[int]) -> tuple[int, ...]:
    several = np.iterable(buckets) and not isinstance(buckets, str)
    found = tuple(whole("buckets", each) for each in buckets) if several else ()
    if not found or any(a >= b for a, b in pairwise(found)):
        raise SpecError(f"buckets must be numbers of frames that rise, got {buckets!r}")
    return found


def _balance(given: object) -> Literal["class"] | tuple[float, ...]:
    if isinstance(given, str) and given == "class":
        return "class"
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    sound = weights.ndim == 1 and np.isfinite(weights).all() and (weights >= 0).all()
    if not sound or not weights.any():
        raise SpecError(
            f'balance must be "class", or a weight of at least 0 for each row, got {given!r}'
        )
    return tuple(weights.tolist())


def check_numbered(options: StreamOptions, what: str) -> None:
    """Raise SpecError unless the n-th batch is that of step n, which ``what`` needs."""
    if options.on_error == "skip" or not options.ordered:
        raise SpecError(
            f'{what} needs ordered=True, and on_error="substitute" or "raise": else no batch '
            "has a number"
        )
