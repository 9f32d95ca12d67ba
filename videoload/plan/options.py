"""The options of a stream, besides its catalog and its clip spec."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_type_hints,
)  # fmt: skip

import numpy as np
import numpy.typing as npt

from videoload.arguments import real, refuse_unknown, suggests, whole
from videoload.clips.sample_spec import Shape
from videoload.errors import SpecError

DropRemainder = bool | Literal["repeat"]
OnError = Literal["substitute", "skip", "raise"]
Balance = Literal["class"] | Sequence[float] | npt.NDArray[Any]  # a weight for each row
F = TypeVar("F", bound=Callable[..., Any])


class StreamOptions(TypedDict, total=False):
    """The options of a stream, with their defaults: keyword arguments of all functions that create
    one.

    Attributes:
        shuffle: A new order of the clips each epoch, drawn from ``seed``; in a batch, clips of one
            file stand together, and are decoded in one pass. Default False: the catalog's order.
        seed: Of the order, the windows, the crops, the flips and the transform's generator; any
            int. Default 0.
        shard: (rank, world): this trainer's share of each epoch, with 0 <= rank < world. Ranks
            share no clip, and each has the same number of batches. Default (0, 1): all of it.
        drop_remainder: Leave out the last batch of an epoch if it is smaller than the others. False
            still leaves out clips that would need a batch which other ranks do not have;
            ``"repeat"``: none, and ranks that have fewer show a clip of another rank. None, the
            default: True if ``shuffle`` is, and else False.
        ordered: Deliver batches in the order of their steps. False: as they get ready; the same
            batches, but their order depends on the workers. Default True.
        on_error: What to do about a clip that cannot be decoded. ``"substitute"``: another clip,
            drawn from ``seed``, replaces it, and the video is listed in `Stream.quarantine`.
            ``"skip"``, for evaluation: the clip is left out, so its batch is smaller, and the video
            is listed. An empty batch is not delivered, so an epoch may have fewer than
            ``len(stream)`` batches. ``"raise"``: the stream ends with VideoError. Default
            ``"substitute"``.
        max_bad: Share of the catalog's files, 0 to 1, that may be bad before the stream ends with
            TooManyBadVideos; 3 files always may. A file counts once, however many of its segments
            or episodes are bad; ``stats().bad_rows`` lists those. Default 0.01. The stream ends
            at the same batch as `decode_serially`, whatever was decoded ahead.
        balance: ``"class"``: every class equally often in an epoch, to within two clips. An epoch
            is about as long as without it: all clips of a small class are repeated, and some of a
            large one left out. Each class goes through all its clips before it repeats one, also
            across epochs. Rows without a label (-1) are left out. Or an array [N]: the weight of
            each row of the catalog, at least 0. In an epoch of n clips, rows with the share s of
            all weights have n * s clips, rounded down or up. Default None.
        buckets: For clips of any length (``ClipSpec.max_frames``): the numbers of frames (T) of
            batches, increasing, the last one ``max_frames``. Each clip is in a batch of the
            smallest T that holds it, and is padded to that. All clips of a batch have the same T,
            and so have the batches of all ranks at the same step. ``drop_remainder``, and what it
            leaves out, is about the batches of each bucket. ``shuffle`` mixes the batches of all
            buckets; without it, they are ordered by bucket. Not with ``balance`` and mixtures.
            Clips of several sizes (a list in ``ClipSpec.size``) are shared out alike, by bucket and
            size. Default None: all have ``max_frames``.
        batch_frames: Frames of a batch, in the place of ``batch_size``: a batch has
            ``batch_frames // T`` clips, and at least one. Of clips of several sizes, these are
            frames of the largest size, and smaller ones count by their area. Default None.
    """

    shuffle: Annotated[bool, False]
    seed: Annotated[int, 0]
    shard: Annotated[tuple[int, int], (0, 1)]
    drop_remainder: Annotated[DropRemainder | None, None]
    ordered: Annotated[bool, True]
    on_error: Annotated[OnError, "substitute"]
    max_bad: Annotated[float, 0.01]
    balance: Annotated[Balance | None, None]
    buckets: Annotated[Sequence[int] | None, None]
    batch_frames: Annotated[int | None, None]


class CheckedOptions(StreamOptions):
    """All options of a stream. ``drop_remainder`` is not None, ``balance`` is "class", a tuple of
    floats or None, ``buckets`` a tuple or None."""

    batch_size: int | None


_HINTS = get_type_hints(StreamOptions, include_extras=True)
DEFAULTS: dict[str, Any] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}


def takes_options(function: F, *, on_error: OnError = "substitute") -> F:
    """Make a function with ``**options: Unpack[StreamOptions]`` show each of them in its signature
    and its docstring, and suggest a name for a misspelt one. ``on_error``: the function's own
    default."""
    own = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default,
                          annotation=_HINTS[name].__origin__)
        for name, default in (DEFAULTS | {"on_error": on_error}).items()
    ]  # fmt: skip
    signature = inspect.signature(function).replace(parameters=[*own, *options])
    function.__signature__ = signature  # type: ignore[attr-defined]
    if function.__doc__:  # without -OO
        _, text = (StreamOptions.__doc__ or "").split("Attributes:\n")
        text = textwrap.dedent(text).rstrip().replace('``"substitute"``.', f'``"{on_error}"``.')
        function.__doc__ = re.sub(
            r"( +)\*\*options: .*", lambda at: textwrap.indent(text, at[1]), function.__doc__
        )
    return suggests(function)


def checked_options(
    batch_size: int | None = None, **options: Unpack[StreamOptions]
) -> CheckedOptions:
    """Return all options of a stream, checked. Raises SpecError."""
    refuse_unknown("a stream", options, list(DEFAULTS))
    made: dict[str, Any] = {"batch_size": batch_size, **DEFAULTS, **options}
    try:
        rank, world = (whole("shard", part, None) for part in made["shard"])
    except (TypeError, ValueError):  # SpecError is a ValueError.
        rank = world = -1
    if not 0 <= rank < world:
        raise SpecError(
            f"shard must be (rank, world) with 0 <= rank < world, got {made['shard']!r}"
        )
    if made["on_error"] not in get_args(OnError):
        raise SpecError(
            f'on_error must be "substitute", "skip" or "raise", got {made["on_error"]!r}'
        )
    if (batch_size is None) == (made["batch_frames"] is None):
        raise SpecError("give batch_size (clips), or batch_frames (frames of all its clips)")
    if batch_size is None:
        made["batch_frames"] = whole("batch_frames", made["batch_frames"])
    else:
        made["batch_size"] = whole("batch_size", batch_size)
    made["shard"], made["seed"] = (rank, world), whole("seed", made["seed"], None)
    made["max_bad"] = real("max_bad", made["max_bad"], 0, 1, what="a share")
    if made["balance"] is not None:
        made["balance"] = _balance(made["balance"])
    if made["buckets"] is not None:
        made["buckets"] = _rising(made["buckets"])
    if made["drop_remainder"] is None:
        made["drop_remainder"] = made["shuffle"]
    for name in ("shuffle", "drop_remainder", "ordered"):
        if name == "drop_remainder" and made[name] == "repeat":
            continue
        if not isinstance(made[name], bool | np.bool_):
            more = ' or "repeat"' * (name == "drop_remainder")
            raise SpecError(f"{name} must be True or False{more}, got {made[name]!r}")
        made[name] = bool(made[name])
    return cast(CheckedOptions, made)


def clips_in_batch(options: CheckedOptions, shape: Shape, largest: Shape) -> int:
    """Return clips in a batch, if each has this shape. ``batch_frames`` are of the ``largest``."""
    pixels = (options["batch_frames"] or 1) * largest.pixels
    return options["batch_size"] or max(1, pixels // (shape.frames * shape.pixels))


def _rising(buckets: Sequence[int]) -> tuple[int, ...]:
    several = np.iterable(buckets) and not isinstance(buckets, str)
    found = tuple(whole("buckets", each) for each in buckets) if several else ()
    if not found or any(a >= b for a, b in pairwise(found)):
        raise SpecError(f"buckets must be increasing frame counts, got {buckets!r}")
    return found


def _balance(given: object) -> Literal["class"] | tuple[float, ...]:
    if isinstance(given, str) and given == "class":
        return "class"
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    with np.errstate(over="ignore"):
        sound = weights.ndim == 1 and bool((weights >= 0).all()) and 0 < weights.sum() < np.inf
    if not sound:
        raise SpecError(
            f'balance must be "class", or a weight of at least 0 for each row, got {given!r}'
        )
    return tuple(weights.tolist())


def check_numbered(options: CheckedOptions, what: str) -> None:
    """Raise SpecError unless the n-th batch is that of step n, which ``what`` needs."""
    if options["on_error"] == "skip" or not options["ordered"]:
        raise SpecError(
            f'{what} needs ordered=True, and on_error="substitute" or "raise": else no batch '
            "has a number"
        )
