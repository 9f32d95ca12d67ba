"""The user's functions, by the names that a spec gives them: ``"package.module:function"``.

To import a module may take long, and may do anything: each is looked for once, what goes wrong is
kept, and a process whose owner named the modules that it may import imports no other.

They run in one thread. What a product of matrices comes to, and even that of two long vectors,
depends in its last bits on how many share the work, and so on the cores of whoever makes it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec
from videoload.decoding.scaling import Buffer
from videoload.errors import TransformError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Function = Callable[..., object]

_limiting = threading.RLock()  # who began second and ended last would leave the limit behind


class Functions:
    """The functions that this process has looked for. ``allowed``: the modules that they may be of;
    None: any."""

    def __init__(self, allowed: Collection[str] | None) -> None:
        self.allowed = allowed
        self._found: dict[str, Function | TransformError] = {}

    def __contains__(self, name: str) -> bool:
        """Whether it was looked for."""
        return name in self._found

    def find(self, kind: str, name: str) -> Function:
        """The function of that name; ``kind`` is what it is called in an error. Raises
        TransformError."""
        if name not in self._found:
            try:
                self._found[name] = self._import(kind, name)
            except TransformError as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, TransformError):
            raise found.with_traceback(None)
        return found

    def _import(self, kind: str, name: str) -> Function:
        module, _, function = name.partition(":")
        if self.allowed is not None and module not in self.allowed:
            raise TransformError(
                f"{kind} {name}: this worker's owner does not allow it; start the worker with "
                f"--allow {module}"
            )
        try:
            found = getattr(importlib.import_module(module), function)
        except SystemExit as error:
            raise TransformError(
                f"{kind} {name} cannot be imported: its module exits ({error!r}); what is to run "
                "as a script stands behind if __name__ == '__main__'"
            ) from None
        except Exception as error:  # whatever a module of the user's does when it is imported
            raise TransformError(f"{kind} {name} cannot be imported: {error}") from None
        if not callable(found):
            raise TransformError(f"{kind} {name} is not a function")
        return cast(Function, found)


def call(function: Function, given: object, seed: int) -> object:
    """What the function returns for a clip, path or name, and a generator of its own."""
    draws = np.random.Generator(np.random.PCG64(seed))
    with _limiting:
        libraries = _libraries(len(sys.modules))
        if all(library.num_threads == 1 for library in libraries.lib_controllers):
            return function(given, draws)  # in most workers; to limit them takes as long as `draws`
        with libraries.limit(limits=1):
            return function(given, draws)


@lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries with threads that this process has loaded, with so many modules."""
    from threadpoolctl import ThreadpoolController  # 50 ms, which most workers need not

    return ThreadpoolController()


def apply(
    transform: Function,
    spec: ClipSpec,
    path: str,
    clip: Buffer,
    place: npt.NDArray[Any],
    seed: int,
) -> None:
    """Put what the user's function makes of a clip into its place, which may be the clip's."""
    try:
        made = call(transform, clip.copy(), seed)
    except (Exception, SystemExit) as error:
        raise TransformError(
            f"transform {spec.transform} failed on a clip of {path}: {error!r}"
        ) from error
    wanted = (place.shape, place.dtype)
    if not isinstance(made, np.ndarray) or (made.shape, made.dtype) != wanted:
        what = f"{made.dtype}{list(made.shape)}" if isinstance(made, np.ndarray) else repr(made)
        raise TransformError(
            f"transform {spec.transform} returned {what[:80]}, not {place.dtype}{list(place.shape)}"
        )
    np.copyto(place, made)
