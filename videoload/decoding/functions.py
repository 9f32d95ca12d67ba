"""The user's functions, by their names in a spec: ``"package.module:function"``.

Importing a module may take long and may do anything. So each module is imported once, its error is
cached, and a process imports only the modules that its owner allows, if the owner names some.

A function may draw from the generators of Python, NumPy and PyTorch, which belong to the process.
They are seeded for each clip, so what it draws depends on neither worker nor run.

Functions run in one thread. The last bits of a product of matrices, or of two long vectors, depend
on how many threads share the work, and so on the cores of the host.
"""

from __future__ import annotations

import importlib
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from videoload import native
from videoload.activity import Activity, during
from videoload.clips.clip_spec import ClipSpec
from videoload.decoding.code_sources import digest, file_of
from videoload.decoding.planes import Buffer
from videoload.errors import TransformError, WorkersCodeError, named
from videoload.logs import Log

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_log = Log(__name__)

Function = Callable[..., object]

_SLOW_S = 0.25  # a call that takes longer than a heartbeat is reported to the trainer
_limiting = threading.RLock()  # overlapping limits would leave one behind


class Functions:
    """The functions that this process has imported. ``allowed``: the modules that they may come
    from; None: any. ``on_call``: for `UserFunction`."""

    def __init__(
        self, allowed: Collection[str] | None, on_call: Callable[[], None] = lambda: None
    ) -> None:
        self.allowed = allowed
        self._on_call = on_call
        self._found: dict[str, UserFunction | TransformError] = {}
        self._digests: dict[str, str] = {}  # of the modules that were imported

    def __contains__(self, name: str) -> bool:
        """Return whether the import was tried."""
        return name in self._found

    def find(self, name: str, kind: str = "transform") -> UserFunction:
        """Return the function of that name. An error calls it ``kind``. Raises TransformError."""
        if name not in self._found:
            try:
                self._found[name] = self._import(kind, name)
            except TransformError as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, TransformError):
            raise found.with_traceback(None)
        return found

    def _import(self, kind: str, name: str) -> UserFunction:
        module, _, function = name.partition(":")
        if self.allowed is not None and module not in self.allowed:
            raise WorkersCodeError(
                f"{kind} {name}: this worker's owner does not allow it; start the worker with "
                f"--allow {module}"
            )
        try:
            with seeded(0):  # a module may draw as well
                found = getattr(importlib.import_module(module), function)
        except SystemExit as error:
            raise WorkersCodeError(
                f"{kind} {name} cannot be imported: its module exits ({error!r}); move script "
                "code under if __name__ == '__main__'"
            ) from None
        except Exception as error:  # the user's module may do anything
            raise WorkersCodeError(f"{kind} {name} cannot be imported: {error}") from None
        if not callable(found):
            raise WorkersCodeError(f"{kind} {name} is not a function")
        self._check_owner(kind, name, found)
        return UserFunction(cast(Function, found), self._on_call)

    def _check_owner(self, kind: str, name: str, function: object) -> None:
        """An allowed module may have imported functions that do anything, such as `import_module`,
        and a trainer may name any of them. Raises TransformError."""
        while isinstance(function, partial):
            function = function.func
        owner = str(getattr(function, "__module__", ""))
        allowed = self.allowed
        if allowed is not None and not any(f"{owner}.".startswith(f"{one}.") for one in allowed):
            raise WorkersCodeError(
                f"{kind} {name} is a function of {owner}, which this worker's owner does not "
                f"allow; start the worker with --allow {owner}, and name it by that module"
            )

    def check(self, code: Mapping[str, str]) -> None:
        """Compare the digests of a trainer's modules with what was imported here. Raises
        TransformError."""
        for module, wanted in code.items():
            if (file := file_of(module)) is None:
                continue
            if module not in self._digests:  # it was imported just before
                self._digests[module] = digest(file)
            if (here := self._digests[module]) != wanted:
                text = (
                    f"the code of {module} is not the same on this worker ({file}, digest {here}) "
                    f"and at the trainer (digest {wanted}): use one version on both, and restart "
                    "the worker, or the training if its code is the old one"
                )
                _tell(text)
                raise WorkersCodeError(text)


@lru_cache
def _tell(text: str) -> None:
    """Log it once, and not for each lease."""
    _log.error("%s", text)


class UserFunction:
    """A function of the user's. ``on_call`` is called before the first call, and before each one
    that may take as long as the last one that was slow."""

    def __init__(self, function: Function, on_call: Callable[[], None] = lambda: None) -> None:
        self.function = function
        self._on_call = on_call
        self._took_s = math.inf

    def __call__(self, clip: object, seed: int) -> object:
        """Return its result for a clip, with all random generators seeded."""
        if self._took_s > _SLOW_S:
            self._on_call()
        draws, began = np.random.Generator(np.random.PCG64(seed)), time.perf_counter()
        try:
            with during(Activity.FUNCTION), _limiting, seeded(seed):
                libraries = _libraries(len(sys.modules))
                if all(library.num_threads == 1 for library in libraries.lib_controllers):
                    # As in most workers; `limit` takes as long as `draws`.
                    return self.function(clip, draws)
                with libraries.limit(limits=1):
                    return self.function(clip, draws)
        finally:
            self._took_s = time.perf_counter() - began


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators that belong to the process, for functions that draw from them. A process
    that is no worker gets its own state back."""
    torch: Any = sys.modules.get("torch")
    torch = torch if hasattr(torch, "manual_seed") else None  # it may be half imported
    before = None
    if not native.is_worker:
        before = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    if torch is not None:
        torch.manual_seed(seed & (1 << 63) - 1)
    try:
        yield
    finally:
        if before is not None:
            random.setstate(before[0])
            np.random.set_state(before[1])
            if before[2] is not None:
                torch.set_rng_state(before[2])


@lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the libraries with threads, after this process has imported so many modules."""
    from threadpoolctl import ThreadpoolController  # takes 50 ms; most workers do not need it

    return ThreadpoolController()


def apply(
    transform: UserFunction,
    spec: ClipSpec,
    path: str,
    clip: Buffer,
    place: npt.NDArray[Any],
    seed: int,
) -> None:
    """Write the result of the user's function for a clip into ``place``, which may be the clip."""
    try:
        made = transform(clip.copy(), seed)
    except (Exception, SystemExit) as error:
        raise TransformError(
            f"transform {spec.transform} failed on a clip of {named(path)}: {error!r}"
        ) from error
    what, help_ = f"a {type(made).__name__}", "return a NumPy array"
    if isinstance(made, np.ndarray | np.generic):
        if (made.shape, made.dtype) == (place.shape, place.dtype):
            np.copyto(place, made)
            return
        what = f"{made.dtype}{list(made.shape)}"
        help_ = f'if that is right, use ClipSpec(output=({made.shape}, "{made.dtype}"))'
    elif hasattr(made, "__array__"):  # a tensor
        help_ = "return NumPy, its .numpy()"
    raise TransformError(
        f"transform {spec.transform} returned {what}, not {place.dtype}{list(place.shape)}: {help_}"
    )
