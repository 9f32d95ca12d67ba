"""The loaders that are compared; each module is imported only in a run of its own.

A module's ``batches(work, items, processes, variant)`` yields (numbers, clips) in any order: the
items' numbers and their clips, [B] and uint8 [B, T, H, W, 3], as arrays or as whatever its users
get and `np.asarray` takes. Closing the generator ends its processes.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence
from ctypes.util import find_library
from typing import Any, NamedTuple, Protocol, cast

from benchmarks.work import Item, Work

Batch = tuple[Any, Any]
Batches = Generator[Batch, None, None]


class Make(Protocol):
    """What a loader's module offers."""

    def __call__(
        self, work: Work, items: Sequence[Item], processes: int, variant: str
    ) -> Batches: ...


class MissingError(Exception):
    """The loader cannot be used here; the message is the reason."""


class Loader(NamedTuple):
    """A loader by name. ``needs``: what must be importable; ``ffmpeg``: it loads the system's
    FFmpeg."""

    name: str
    module: str
    needs: tuple[str, ...] = ()
    variant: str = ""
    ffmpeg: bool = False

    def load(self) -> Make:
        """Its function. What it needs is imported, which may take seconds. Raises MissingError."""
        if self.ffmpeg and not find_library("avcodec"):
            raise MissingError("FFmpeg's shared libraries are not there: apt-get install ffmpeg")
        for name in self.needs:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                raise MissingError(f"{name} is not installed") from None
            except Exception as error:  # a library below it, most often
                said = str(error).strip().splitlines() or [type(error).__name__]
                raise MissingError(f"{name}: {said[-1]}") from None
        return cast(Make, importlib.import_module(self.module).batches)


def _here(module: str) -> str:
    return f"{__package__}.{module}"


LIMIT = "limit"
_TENSORFLOW = ("tensorflow",)
_USUAL = (  # those of `--videos`: ours, and the usual ones
    Loader(LIMIT, _here("bare"), variant="tables"),
    Loader("videoload", _here("ours"), _TENSORFLOW),
    Loader("videoload without TensorFlow", _here("ours"), (), "loop"),
    Loader(
        "DataLoader torchcodec",
        _here("torch_data"),
        ("torch", "torchcodec", "cv2"),
        "torchcodec",
        ffmpeg=True,
    ),
    Loader("DataLoader opencv", _here("torch_data"), ("torch", "cv2"), "opencv"),
    Loader("DataLoader pyav", _here("torch_data"), ("torch",), "pyav"),
    Loader("SPDL", _here("spdl_data"), ("spdl.io", "spdl.pipeline"), ffmpeg=True),
    Loader("tf.data opencv", _here("tf_data"), ("tensorflow", "cv2"), "opencv"),
    Loader("Keras", _here("keras_data"), ("keras", "tensorflow")),
    Loader("serial", _here("bare")),
)
_MORE = (
    Loader("videoload tcp", _here("ours"), _TENSORFLOW, "tcp"),
    Loader("DataLoader decord", _here("torch_data"), ("torch", "decord"), "decord"),
    Loader("tf.data pyav", _here("tf_data"), _TENSORFLOW, "pyav"),
)
USUAL = [loader.name for loader in _USUAL]
LOADERS = {loader.name: loader for loader in _USUAL + _MORE}
