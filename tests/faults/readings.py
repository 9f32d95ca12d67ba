"""A stream that test after test continues to read, beside the serial one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tests.support.digests import digests
from tests.support.videos import Videos
from videoload import Client, ClipSpec, decode_serially


class Reading:
    """Reads the same shuffled epochs again and again, without end."""

    def __init__(
        self, client: Client, videos: Videos, clip: ClipSpec, batch: int, *, slots: int, epochs: int
    ) -> None:
        catalog = videos.catalog
        self.stream = client.stream(catalog, clip, batch, shuffle=True, slots=slots)
        self._epochs = epochs
        self._serial = digests(
            decode_serially(catalog, clip, batch, shuffle=True, epochs=epochs, info=True)
        )
        self._batches = self._endless()

    def _endless(self) -> Iterator[tuple[list[str], str]]:
        while True:
            batches = self.stream.batches(epochs=self._epochs, info=True)
            yield from zip(map(digests, zip(batches)), self._serial, strict=True)

    def read(self, count: int = 1) -> None:
        """Read this many more batches, and check them."""
        for got, expected in islice(self._batches, count):
            assert got == [expected]
