"""A stream that test after test continues to read, beside the serial one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from tests.support.digests import digests
from tests.support.videos import Videos
from videoload import Catalog, Client, ClipSpec, decode_serially


@cache
def _serial(root: Path, clip: ClipSpec, batch: int, epochs: int) -> list[str]:
    catalog = Catalog.from_folder(root)
    return digests(decode_serially(catalog, clip, batch, shuffle=True, epochs=epochs, info=True))


class Reading:
    """Reads the same shuffled epochs again and again, without end."""

    def __init__(
        self, client: Client, videos: Videos, clip: ClipSpec, batch: int, *, slots: int, epochs: int
    ) -> None:
        self.stream = client.stream(videos.catalog, clip, batch, shuffle=True, slots=slots)
        self._epochs = epochs
        self._serial = _serial(videos.root, clip, batch, epochs)
        self._batches = self._endless()

    def _endless(self) -> Iterator[tuple[list[str], str]]:
        while True:
            batches = self.stream.batches(epochs=self._epochs, info=True)
            yield from zip(map(digests, zip(batches)), self._serial, strict=True)

    def read(self, count: int = 1) -> None:
        """Read this many more batches, and check them."""
        for got, expected in islice(self._batches, count):
            assert got == [expected]
