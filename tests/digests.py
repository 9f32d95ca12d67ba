"""What a stream gave, in a few bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np


def digests(batches: Iterable[Any]) -> list[str]:
    """One SHA-256 a batch, over all that it says: shapes, types, pixels, labels, and with ``info``
    the step, the videos and the frames."""
    found = []
    for batch in batches:
        sha = hashlib.sha256()
        arrays = [*batch[:2], *(np.asarray(part) for part in (batch[2] if len(batch) > 2 else ()))]
        for array in arrays:
            sha.update(f"{array.dtype}{array.shape}".encode())
            sha.update(np.ascontiguousarray(array).data)
        found.append(sha.hexdigest())
    return found


def digest(batches: Iterable[Any]) -> str:
    """One SHA-256 over all batches, in their order."""
    return hashlib.sha256("".join(digests(batches)).encode()).hexdigest()
