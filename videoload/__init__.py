"""videoload: decoder worker processes turn video files into clip batches while the model trains.

    import videoload as vl

    catalog = vl.Catalog.from_folder("ucf101")
    clip = vl.ClipSpec(frames=16, stride=2, resize=128, size=(112, 112))
    with vl.Client(workers=2) as client:
        stream = client.stream(catalog, clip, batch_size=8, shuffle=True, seed=0)
        for clips, labels in stream:
            ...

Names are loaded on first use, so that a worker process imports no more than it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from videoload.catalog.catalog import Catalog
    from videoload.catalog.joining import join, mix
    from videoload.catalog.table import Part, Video
    from videoload.catalog.targets import PerFrame
    from videoload.clips.clip_spec import ClipSpec
    from videoload.clips.item_spec import ItemSpec
    from videoload.errors import (
        BadVideo,
        CatalogError,
        ClosedError,
        ProtocolError,
        SpecError,
        StorageError,
        TooManyBadVideos,
        TransformError,
        TransportError,
        VideoError,
        VideoloadError,
        WorkerError,
    )
    from videoload.plan.options import StreamOptions
    from videoload.plan.plan import BatchInfo
    from videoload.stats.stats import ClipTimes, SlowFile, StreamStats, WorkerStats
    from videoload.trainer.client import Client
    from videoload.trainer.evaluation import Evaluation, evaluate
    from videoload.trainer.head_room import head_room
    from videoload.trainer.position import Position
    from videoload.trainer.ray_workers import RayWorkers
    from videoload.trainer.serial import decode_serially
    from videoload.trainer.stream import Stream

__version__ = "0.1.0"

_HOMES = {
    "catalog.catalog": ("Catalog",),
    "trainer.client": ("Client",),
    "clips.clip_spec": ("ClipSpec",),
    "clips.item_spec": ("ItemSpec",),
    "errors": (
        "BadVideo",
        "CatalogError",
        "ClosedError",
        "ProtocolError",
        "SpecError",
        "StorageError",
        "TooManyBadVideos",
        "TransformError",
        "TransportError",
        "VideoError",
        "VideoloadError",
        "WorkerError",
    ),
    "catalog.joining": ("join", "mix"),
    "plan.options": ("StreamOptions",),
    "plan.plan": ("BatchInfo",),
    "catalog.table": ("Part", "Video"),
    "catalog.targets": ("PerFrame",),
    "trainer.evaluation": ("Evaluation", "evaluate"),
    "trainer.head_room": ("head_room",),
    "trainer.position": ("Position",),
    "trainer.ray_workers": ("RayWorkers",),
    "stats.stats": ("ClipTimes", "SlowFile", "StreamStats", "WorkerStats"),
    "trainer.serial": ("decode_serially",),
    "trainer.stream": ("Stream",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # in full, so that type checkers see what is public
    "BadVideo",
    "BatchInfo",
    "Catalog",
    "CatalogError",
    "Client",
    "ClipSpec",
    "ClipTimes",
    "ClosedError",
    "Evaluation",
    "ItemSpec",
    "Part",
    "PerFrame",
    "Position",
    "ProtocolError",
    "RayWorkers",
    "SlowFile",
    "SpecError",
    "StorageError",
    "Stream",
    "StreamOptions",
    "StreamStats",
    "TooManyBadVideos",
    "TransformError",
    "TransportError",
    "Video",
    "VideoError",
    "VideoloadError",
    "WorkerError",
    "WorkerStats",
    "__version__",
    "decode_serially",
    "evaluate",
    "head_room",
    "join",
    "mix",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
