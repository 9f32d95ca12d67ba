"""Functions that the tests name as ``load`` of an ItemSpec; workers import them from here."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.waiting import SECOND

Floats = npt.NDArray[np.float32]


def load(path: str, rng: np.random.Generator) -> npt.NDArray[Any]:
    """A .npy file, as it is."""
    loaded: npt.NDArray[Any] = np.load(path)
    return loaded


def rows_of(
    path: str, rng: np.random.Generator, *, frames: npt.NDArray[np.int64], times: Any
) -> Floats:
    """For each frame of a clip: the row of a .npy file, and when the frame is shown."""
    found: Floats = np.stack([np.load(path)[frames], times], -1).astype(np.float32)
    return found


def matrix(
    path: str, rng: np.random.Generator, *, frames: Any, times: Any, affine: Floats
) -> Floats:
    """The matrix of the leading clip."""
    return affine


def noisy(path: str, rng: np.random.Generator) -> Floats:
    return load(path, rng) + rng.standard_normal((2, 3), np.float32)


def several(path: str, rng: np.random.Generator) -> dict[str, Any]:
    image = load(path, rng)
    return {"image": image, "bright": image.mean() > 0, "at": rng.random(3)}


def numbers(name: str, rng: np.random.Generator) -> Floats:
    """A number from a name."""
    return np.full((2, 3), float(name), np.float32) + rng.random((2, 3), np.float32)


def _bad(path: str) -> bool:
    return "bad" in Path(path).name


def raises(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        raise ValueError("no\nluck")
    return load(path, rng)


def lucky(path: str, rng: np.random.Generator) -> Floats:
    if rng.random() < 0.3:
        raise ValueError("no luck")
    return load(path, rng)


def another_shape(path: str, rng: np.random.Generator) -> Floats:
    return load(path, rng)[: 1 if _bad(path) else 2]


def another_type(path: str, rng: np.random.Generator) -> Any:
    return load(path, rng).astype(np.float64 if _bad(path) else np.float32)


def leaves(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        sys.exit("enough")
    return load(path, rng)


def ends(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        os._exit(3)
    return load(path, rng)


def crashes(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        os.kill(os.getpid(), signal.SIGSEGV)
    return load(path, rng)


def hangs(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        time.sleep(3600)
    return load(path, rng)


def burns(path: str, rng: np.random.Generator) -> Floats:
    while _bad(path):
        pass
    return load(path, rng)


def never_returns(path: str, rng: np.random.Generator) -> Floats:
    print("it has begun", file=sys.stderr, flush=True)
    while True:
        time.sleep(1)


def eats_memory(path: str, rng: np.random.Generator) -> Floats:
    if _bad(path):
        np.ones(1 << 33, np.uint8)
    return load(path, rng)


def mistaken(path: str, rng: np.random.Generator) -> Floats:
    return undefined_name  # type: ignore[name-defined,no-any-return]  # noqa: F821


def forgets(path: str, rng: np.random.Generator) -> Any:
    load(path, rng)


def other_names(path: str, rng: np.random.Generator) -> Any:
    return {"picture": load(path, rng)}


def hangs_at_a_name(name: str, rng: np.random.Generator) -> np.float32:
    if name == "bad":
        time.sleep(3600)
    return np.float32(name)


def crashes_at_a_name(name: str, rng: np.random.Generator) -> np.float32:
    if name == "bad":
        os.kill(os.getpid(), signal.SIGSEGV)
    return np.float32(name)


def sleeps(name: str, rng: np.random.Generator) -> Any:
    """Sleeps for as many milliseconds as the last word of the name says, times a factor from this
    process's environment: a slow file, or a slow host, which uses no core."""
    pace = float(os.environ.get("VIDEOLOAD_TEST_PACE", "1"))
    time.sleep(float(name.rsplit(maxsplit=1)[-1]) / 1000 * pace * SECOND)
    return np.float32(0)


def where(path: str, rng: np.random.Generator) -> np.int64:
    """Sleeps for 10 ms, and tells on which host that was."""
    time.sleep(0.01 * SECOND)
    return np.int64(zlib.crc32(socket.gethostname().encode()))


def takes_long(path: str, rng: np.random.Generator) -> Any:
    """Sleeps for 2.5 seconds, and writes that it was called for this file."""
    with Path(path).with_suffix(".calls").open("a") as calls:
        calls.write("x")
    time.sleep(2.5 * SECOND)
    return np.float32(0)


def large(name: str, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """500 kB."""
    return np.full(500_000, 7, np.uint8)
