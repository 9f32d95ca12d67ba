"""Items, which a user's function makes of files or names: checked and written to their place.

A function may fail at one item, as a decoder does at one video: then that item is bad. Or the
function itself is wrong: then the stream ends, and the error shows where.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import affines
from videoload.clips.edges import pictures
from videoload.clips.followers import SampleParams
from videoload.clips.item_spec import ItemSpec
from videoload.clips.sample_spec import arrays_of, reads_files
from videoload.errors import OneClipError, TransformError, VideoError, named
from videoload.storage.files import Storage, Tick
from videoload.storage.paths import pieces_of
from videoload.user_code.functions import Functions, UserFunction

_log = logging.getLogger(__name__)

# Errors in the function, not in a file.
_MISTAKES = (NameError, AttributeError, TypeError, ImportError, SyntaxError, NotImplementedError)
_TRACEBACK = 3000  # its last characters are shown
_OUR_CALLS = 2  # before the user's function: `_call`, `UserFunction.__call__`


class PreparedItems(NamedTuple):
    """Items to be made of one ``path``. ``given`` is the file or the name for the function."""

    path: str
    spec: ItemSpec
    seeds: Sequence[int]
    out: npt.NDArray[np.uint8]  # [n, spec.clip_bytes]
    function: UserFunction
    given: str
    # As parts of samples: what each shows, for the function.
    shown: Sequence[SampleParams] = ()
    offset_s: float = 0.0  # when the file begins, after that of the clip


def prepare_items(
    path: str,
    spec: ItemSpec,
    seeds: Sequence[int],
    out: npt.NDArray[np.uint8],
    functions: Functions,
    storage: Storage,
) -> PreparedItems:
    """Find the function, and what it is called with. Raises VideoError, TransformError."""
    function = functions.find("load function", str(spec.load))
    if reads_files(spec):
        if storage.fetches:
            raise TransformError(
                f"load function {spec.load} reads files, and {storage.root} is no folder: copy "
                "them to one, or have the function fetch them (files=False)"
            )
        if len(pieces_of(path)) > 1:
            raise TransformError(
                f"load function {spec.load} takes one file, and {named(path)} is a recording in "
                "several: give a catalog of files"
            )
        given = storage.resolve(path).path
    else:
        given = path if functions.allowed is None else checked_name(path)
    return PreparedItems(path, spec, seeds, out, function, given)


def load_items(prepared: PreparedItems, tick: Tick) -> npt.NDArray[np.int64]:
    """Make the items. Returns the ordinals of their source frames, int64 [n, 0]: they have none.
    Calls ``tick`` before each item. Raises VideoError, TransformError."""
    for at, (seed, row) in enumerate(zip(prepared.seeds, prepared.out, strict=True)):
        tick()
        more: dict[str, object] = {}
        if prepared.shown:
            shown = prepared.shown[at]
            more = {"frames": pictures(shown.frames), "times": shown.times - prepared.offset_s}
            if prepared.function.takes_affine:
                made = affines(shown.clips[shown.leading])
                more["affine"] = made if shown.frames.ndim > 1 else made[0]
        _store(prepared, _call(prepared, seed, more), arrays_of(prepared.spec, row))
    return np.empty((len(prepared.out), 0), np.int64)


def checked_name(path: str) -> str:
    """A name that came from another host. Raises VideoError if it leads to a file: the function may
    read files, and files outside the root must stay private."""
    if "/" in path or "\0" in path or os.path.lexists(path):
        raise VideoError(path, "is no name for a worker that dials in: it may lead to a file")
    return path


def _call(prepared: PreparedItems, seed: int, more: Mapping[str, object]) -> object:
    name = prepared.spec.load
    try:
        return prepared.function(prepared.given, seed, **more)
    except _MISTAKES as error:
        hint = ""
        if more and "unexpected keyword argument" in str(error):
            hint = "; of a part of a sample it is called as load(path, rng, frames=..., times=...)"
        raise TransformError(
            f"load function {name} failed at {prepared.path}: {_line(error)}{hint}\n{_told(error)}"
        ) from error
    except (Exception, SystemExit) as error:
        line = f"load function {name} failed: {_line(error)}"
        _tell(f"{prepared.path}: {line}\n{_told(error)}")
        raise OneClipError(prepared.path, line) from None


def _store(prepared: PreparedItems, made: object, places: Any) -> None:
    """Write what a function returned to its place."""
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
    """Log it once, although each epoch tries the item again."""
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
    """The traceback from the user's function on; None if it was not called."""
    at = error.__traceback__
    for _ in range(_OUR_CALLS):
        at = at and at.tb_next
    return at
