"""videoload, end to end: what comes out of ``stream.dataset()``, or of a loop.

Local workers; the variant "store" has a frame store, which later runs find filled. Each item is a
segment in a catalog, exactly as long as its clip, so "center" can choose nothing but the frames
that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.clips.choices import Pixels
from videoload.comparison.loaders import Batches
from videoload.comparison.work import Item, Work
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

Watch = Callable[[Stream], AbstractContextManager[None]]


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The batches of the variant: "loop", or those of a data set for TensorFlow."""
    options: dict[str, Any] = {}
    if variant == "store" and (kept := work.frame_store):
        limit = None if kept.max_bytes is None else kept.max_bytes / 1e9
        options = {"frame_store": kept.folder, "frame_store_gb": limit}
    with Client(workers=processes, **options) as client:
        yield from read(client, work, items, is_loop=variant == "loop")


def read(
    client: Client,
    work: Work,
    items: Sequence[Item],
    *,
    is_loop: bool = False,
    pixels: Pixels = "rgb24",
    watch: Watch = lambda stream: nullcontext(),
) -> Batches:
    """Labels are the items' numbers. The stream repeats the list as often as needed; ``watch`` is
    what is done with it meanwhile."""
    once = items[: len(work.distinct)]
    spec = work.clip.spec(sampling="center", pixels=pixels)
    stream = client.stream(_catalog(work, once), spec, work.batch, on_error="raise")
    epochs, count = -(-len(items) // len(once)), len(items) // work.batch
    with watch(stream):
        if is_loop:
            for clips, labels in islice(stream.batches(epochs=epochs), count):
                yield labels, clips
        else:
            for clips, labels in stream.dataset(epochs=epochs).take(count):
                yield labels, clips


def _catalog(work: Work, items: Sequence[Item]) -> Catalog:
    rows = [
        {
            "path": work.files[item.file].path,
            "label": item.number,
            "start": item.start,
            "end": item.start + work.clip.span,
        }
        for item in items
    ]
    return Catalog.from_table(rows, root=work.root, duplicates=True)  # of very few short files
