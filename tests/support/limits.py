"""Limits of this process, for as long as a block runs."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """``kind`` is a ``resource.RLIMIT_...``, and this its soft limit."""
    before, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (before, hard))


@contextmanager
def limited_files(most_bytes: int) -> Iterator[None]:
    """No file can grow beyond ``most_bytes``: a write takes what there is room for, and the next
    one nothing."""
    with limited(resource.RLIMIT_FSIZE, most_bytes):
        yield


@contextmanager
def limited_descriptors(free: int) -> Iterator[None]:
    """No more than ``free`` files can be opened."""
    lowest = [os.dup(0) for _ in range(free + 1)]
    for number in lowest:
        os.close(number)
    with limited(resource.RLIMIT_NOFILE, lowest[free]):
        yield
