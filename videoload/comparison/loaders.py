"""The loaders that are compared, by name; each module is imported only in a run of its own.

A module's ``batches(work, items, processes, variant)`` yields (numbers, clips) in any order: the
items' numbers and their clips, [B] and uint8 [B, T, H, W, 3], as arrays or as whatever its users
get and `np.asarray` takes. Closing the generator ends its processes.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Generator, Sequence
from ctypes.util import find_library
from functools import cache
from typing import Any, NamedTuple, Protocol, cast

from videoload.comparison.work import Item, Work

Batch = tuple[Any, Any]
Batches = Generator[Batch, None, None]


class Make(Protocol):
    """What a loader's module offers."""

    def __call__(
        self, work: Work, items: Sequence[Item], processes: int, variant: str
    ) -> Batches: ...


class Loader(NamedTuple):
    """A loader by name. ``needs``: what must be importable, or it is skipped; ``ffmpeg``: it loads
    the system's FFmpeg."""

    name: str
    module: str
    needs: tuple[str, ...] = ()
    variant: str = ""
    ffmpeg: bool = False

    def load(self) -> Make:
        """Its function. What it needs is imported, which may take seconds."""
        for name in self.needs:
            importlib.import_module(name)
        module = importlib.import_module(f"videoload.comparison.{self.module}")
        return cast(Make, module.batches)

    def missing(self) -> str:
        """Why it cannot be used here; empty if it can."""
        if self.ffmpeg and not find_library("avcodec"):
            return "FFmpeg's shared libraries are not there: apt-get install ffmpeg"
        return next(filter(None, map(_import_error, self.needs)), "")


@cache
def _import_error(module: str) -> str:
    """What importing it says, in a process of its own: some of them do not work together."""
    tried = subprocess.run(
        [sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False
    )
    if not tried.returncode:
        return ""
    said = (tried.stderr.strip().splitlines() or ["cannot be imported"])[-1]
    return (
        f"{module} is not installed" if said.startswith("ModuleNotFound") else f"{module}: {said}"
    )


LIMIT = "limit"
WITH_STORE = "videoload frame store"
LOADERS = {
    loader.name: loader
    for loader in (
        Loader(LIMIT, "bare", variant="tables"),
        Loader("videoload", "ours", ("tensorflow",)),
        Loader("videoload without TensorFlow", "ours", (), "loop"),
        Loader(WITH_STORE, "ours", ("tensorflow",), "store"),
        Loader("videoload watched", "ours", ("tensorflow",), "watched"),
        Loader("videoload tcp", "ours", ("tensorflow",), "tcp"),
        Loader("videoload tcp curve", "ours", ("tensorflow",), "tcp curve"),
        Loader("videoload tcp yuv420p", "ours", ("tensorflow",), "tcp yuv420p"),
        Loader(
            "DataLoader torchcodec",
            "torch_data",
            ("torch", "torchcodec", "cv2"),
            "torchcodec",
            ffmpeg=True,
        ),
        Loader("DataLoader opencv", "torch_data", ("torch", "cv2"), "opencv"),
        Loader("DataLoader decord", "torch_data", ("torch", "decord"), "decord"),
        Loader("DataLoader pyav", "torch_data", ("torch",), "pyav"),
        Loader("DataLoader pyav usual", "torch_data", ("torch",), "usual"),
        Loader("SPDL", "spdl_data", ("spdl.io", "spdl.pipeline"), ffmpeg=True),
        Loader("tf.data opencv", "tf_data", ("keras", "tensorflow", "cv2"), "opencv"),
        Loader("tf.data pyav", "tf_data", ("keras", "tensorflow"), "pyav"),
        Loader("Keras threads", "tf_data", ("keras", "tensorflow"), "keras threads"),
        Loader("Keras processes", "tf_data", ("keras", "tensorflow"), "keras processes"),
        Loader("serial", "bare"),
    )
}
