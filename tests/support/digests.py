"""The content of a stream in a few bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np


def digests(batches: Iterable[Any]) -> list[str]:
    """One SHA-256 per batch, over everything in it: shapes, types, pixels, labels, and with
    ``info`` the step, the videos, the frames and the matrices."""
    found = []
    for batch in batches:
        sha = hashlib.sha256()
        items, labels, *info = batch
        several = items if isinstance(items, dict) else {"": items}
        targets = labels.values() if isinstance(labels, dict) else [labels]
        arrays = [*several, *several.values(), *targets, *(info[0][:3] if info else ())]
        affine = info[0].affine if info else None
        arrays += (
            affine.values() if isinstance(affine, dict) else [] if affine is None else [affine]
        )
        for array in map(np.asarray, arrays):
            sha.update(f"{array.dtype}{array.shape}".encode())
            sha.update(array.tobytes())
        found.append(sha.hexdigest())
    return found


def digest(batches: Iterable[Any]) -> str:
    """One SHA-256 over all batches, in their order."""
    return hashlib.sha256("".join(digests(batches)).encode()).hexdigest()
