"""The user's functions, by their names in a spec: ``"package.module:function"``.

Importing a module may take long and may do anything. So each module is imported once, its error is
kept, and a process imports only the modules that its owner allows, if the owner names some.

Functions run in one thread. The last bits of a product of matrices, or of two long vectors, depend
on how many threads share the work, and so on the cores of the host.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from videoload import native, user_code
from videoload.clips.clip_spec import ClipSpec
from videoload.errors import TransformError
from videoload.pixels.scaling import Buffer

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_log = logging.getLogger(__name__)

Function = Callable[..., object]

_limiting = threading.RLock()  # overlapping limits would leave one behind


class Functions:
    """The functions that this process has imported. ``allowed``: the modules that they may come
    from; None: any."""

    def __init__(self, allowed: Collection[str] | None) -> None:
        self.allowed = allowed
        self._found: dict[str, Function | TransformError] = {}
        self._digests: dict[str, str] = {}  # of the modules that were imported

    def __contains__(self, name: str) -> bool:
        """Whether the import was tried."""
        return name in self._found

    def find(self, kind: str, name: str) -> Function:
        """The function of that name. An error calls it ``kind``. Raises TransformError."""
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
        sources = user_code.read(module)
        self._digests[module] = user_code.digest(sources)
        if native.is_worker:
            user_code.pin(sources)
        try:
            found = getattr(importlib.import_module(module), function)
        except SystemExit as error:
            raise TransformError(
                f"{kind} {name} cannot be imported: its module exits ({error!r}); what is to run "
                "as a script stands behind if __name__ == '__main__'"
            ) from None
        except Exception as error:  # the user's module may do anything
            raise TransformError(f"{kind} {name} cannot be imported: {error}") from None
        if not callable(found):
            raise TransformError(f"{kind} {name} is not a function")
        if not native.is_worker:
            user_code.warn_of_edits(sources)
        return cast(Function, found)

    def check(self, code: Mapping[str, str]) -> None:
        """Compare the digests of a trainer's modules with what was imported here. Raises
        TransformError."""
        for module, wanted in code.items():
            here = self._digests.get(module, "")
            if here and here != wanted:
                file = getattr(sys.modules.get(module), "__file__", None)
                text = (
                    f"the code of {module} is not the same on this worker ({file}, digest {here}) "
                    f"and at the trainer (digest {wanted}); what it imports beside it counts too: "
                    "bring both to one version, and restart the worker, or the training if its "
                    "code is the old one"
                )
                _tell(text)
                raise TransformError(text)


@lru_cache
def _tell(text: str) -> None:
    """Log it once, and not for each lease."""
    _log.error("%s", text)


def call(function: Function, given: object, seed: int) -> object:
    """What the function returns for a clip, path or name, with a generator seeded for it."""
    draws = np.random.Generator(np.random.PCG64(seed))
    with _limiting:
        libraries = _libraries(len(sys.modules))
        if all(library.num_threads == 1 for library in libraries.lib_controllers):
            return function(given, draws)  # as in most workers; `limit` takes as long as `draws`
        with libraries.limit(limits=1):
            return function(given, draws)


@lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries with threads, after this process has imported so many modules."""
    from threadpoolctl import ThreadpoolController  # takes 50 ms; most workers do not need it

    return ThreadpoolController()


def apply(
    transform: Function,
    spec: ClipSpec,
    path: str,
    clip: Buffer,
    place: npt.NDArray[Any],
    seed: int,
) -> None:
    """Write what the user's function makes of a clip into ``place``, which may be the clip."""
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
