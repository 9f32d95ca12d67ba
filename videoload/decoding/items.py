"""Items: what a function of the user's makes of files, or of names, checked and put in its place.

A function may fail at one item, as a decoder does at one video: that item is bad. Or it is wrong
itself, and then no item comes of it: the stream ends, and the trainer's user sees where.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.item_spec import ItemSpec
from videoload.decoding.functions import Function, call
from videoload.errors import OneClipError, TransformError, VideoError

_log = logging.getLogger(__name__)

# What no file can be blamed for.
_MISTAKES = (NameError, AttributeError, TypeError, ImportError, SyntaxError, NotImplementedError)
_TRACEBACK = 3000  # characters of it, the last ones
_OUR_CALLS = 2  # until the user's function is reached: `_call`, `call`


class PreparedItems(NamedTuple):
    """What is to be done: items of one ``path``, from ``given``, which is the file or the name."""

    path: str
    spec: ItemSpec
    seeds: Sequence[int]
    out: npt.NDArray[np.uint8]  # [n, spec.clip_bytes]
    function: Function
    given: str

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Items have no frames, and so no times."""
        return np.empty(frames.shape)


def load_items(prepared: PreparedItems, tick: Callable[[], None]) -> npt.NDArray[np.int64]:
    """Make the items; returns the ordinals of their source frames, of which there are none: int64
    [n, 0]. ``tick`` is called before each. Raises VideoError, TransformError."""
    for seed, row in zip(prepared.seeds, prepared.out, strict=True):
        tick()
        _store(prepared, _call(prepared, seed), prepared.spec.arrays(row))
    return np.empty((len(prepared.out), 0), np.int64)


def checked_name(path: str) -> str:
    """A name that someone on another host gave. Raises VideoError where it leads to a file: the
    function may be one that reads files, and those outside of the root are nobody's business."""
    if "/" in path or "\0" in path or os.path.lexists(path):
        raise VideoError(path, "is no name for a worker that dials in: it may lead to a file")
    return path


def _call(prepared: PreparedItems, seed: int) -> object:
    name = prepared.spec.load
    try:
        return call(prepared.function, prepared.given, seed)
    except _MISTAKES as error:
        raise TransformError(
            f"load function {name} failed at {prepared.path}: {_line(error)}\n{_told(error)}"
        ) from error
    except (Exception, SystemExit) as error:
        line = f"load function {name} failed: {_line(error)}"
        _tell(f"{prepared.path}: {line}\n{_told(error)}")
        raise OneClipError(prepared.path, line) from None


def _store(prepared: PreparedItems, made: object, places: Any) -> None:
    """Put what a function returned into its place."""
    if not isinstance(places, dict):
        _copy(prepared, "", made, places)
        return
    if not isinstance(made, dict) or made.keys() != places.keys():
        got = f"a dict of {list(made)}" if isinstance(made, dict) else _what(made)
        raise TransformError(
            f"load function {prepared.spec.load} returned {got} for {prepared.path}, not a dict of "
            f"{list(places)}"
        )
    for name, place in places.items():
        _copy(prepared, f"{name}: ", made[name], place)


def _copy(prepared: PreparedItems, name: str, made: object, place: npt.NDArray[Any]) -> None:
    if isinstance(made, np.ndarray | np.generic) and (made.shape, made.dtype) == (
        place.shape,
        place.dtype,
    ):
        np.copyto(place, made)
        return
    flaw = f"returned {name}{_what(made)}, not {_what(place)}"
    if isinstance(made, np.ndarray | np.generic):
        raise OneClipError(prepared.path, f"load function {prepared.spec.load} {flaw}")
    raise TransformError(f"load function {prepared.spec.load} {flaw}, for {prepared.path}")


def _what(made: object) -> str:
    if isinstance(made, np.ndarray | np.generic):
        return f"{made.dtype}{list(made.shape)}"
    return f"a {type(made).__name__}"


@lru_cache(10_000)
def _tell(text: str) -> None:
    """Log it once: each epoch tries the item again."""
    _log.warning("%s", text)


def _line(error: BaseException) -> str:
    """The error in one line, with the place in the user's code."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    steps = traceback.extract_tb(_in_their_code(error))
    return f"{text} ({Path(steps[-1].filename).name}:{steps[-1].lineno})" if steps else text


def _told(error: BaseException) -> str:
    """The text of the traceback, from the user's function on."""
    told = traceback.format_exception(type(error), error, _in_their_code(error))
    return "".join(told)[-_TRACEBACK:].rstrip()


def _in_their_code(error: BaseException) -> TracebackType | None:
    """The traceback from the user's function on; None if it was not reached."""
    at = error.__traceback__
    for _ in range(_OUR_CALLS):
        at = at and at.tb_next
    return at
