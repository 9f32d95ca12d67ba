"""videoload: decoder worker processes turn video files into clip batches while the model trains.

    import videoload as vl

    catalog = vl.Catalog.from_folder("ucf101")
    clip = vl.ClipSpec(frames=16, stride=2, resize=128, size=(112, 112))
    with vl.Client(workers=2) as client:
        stream = client.stream(catalog, clip, batch_size=8, shuffle=True, seed=0)
        for clips, labels in stream:
            ...

A name is loaded on first use, so a worker process imports only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # "as" tells type checkers that a name is public
    from videoload import jax as jax
    from videoload import keras as keras
    from videoload import torch as torch
    from videoload.catalog.catalog import Catalog as Catalog
    from videoload.catalog.joining import join as join
    from videoload.catalog.joining import mix as mix
    from videoload.catalog.table import Part as Part
    from videoload.catalog.table import Video as Video
    from videoload.catalog.targets import PerFrame as PerFrame
    from videoload.clips.clip_spec import ClipSpec as ClipSpec
    from videoload.clips.item_spec import ItemSpec as ItemSpec
    from videoload.errors import BadVideo as BadVideo
    from videoload.errors import CatalogError as CatalogError
    from videoload.errors import ClosedError as ClosedError
    from videoload.errors import ProtocolError as ProtocolError
    from videoload.errors import SpecError as SpecError
    from videoload.errors import StorageError as StorageError
    from videoload.errors import TooManyBadVideos as TooManyBadVideos
    from videoload.errors import TransformError as TransformError
    from videoload.errors import TransportError as TransportError
    from videoload.errors import VideoError as VideoError
    from videoload.errors import VideoloadError as VideoloadError
    from videoload.errors import WorkerError as WorkerError
    from videoload.plan.plan import BatchInfo as BatchInfo
    from videoload.predictions.evaluation import Evaluation as Evaluation
    from videoload.predictions.evaluation import Mistake as Mistake
    from videoload.predictions.evaluation import evaluate as evaluate
    from videoload.predictions.predict import Predictions as Predictions
    from videoload.predictions.predict import predict as predict
    from videoload.predictions.windows import FileScores as FileScores
    from videoload.recordings.recording import Recording as Recording
    from videoload.recordings.recording import open as open
    from videoload.stats.stats import ClipTimes as ClipTimes
    from videoload.stats.stats import SlowFile as SlowFile
    from videoload.stats.stats import StreamStats as StreamStats
    from videoload.stats.stats import WorkerStats as WorkerStats
    from videoload.trainer.client import Client as Client
    from videoload.trainer.directory_dataset import (
        video_dataset_from_directory as video_dataset_from_directory,
    )
    from videoload.trainer.head_room import head_room as head_room
    from videoload.trainer.position import Position as Position
    from videoload.trainer.ray_workers import RayWorkers as RayWorkers
    from videoload.trainer.serial import decode_serially as decode_serially
    from videoload.trainer.stream import Stream as Stream

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
    "plan.plan": ("BatchInfo",),
    "catalog.table": ("Part", "Video"),
    "catalog.targets": ("PerFrame",),
    "predictions.predict": ("Predictions", "predict"),
    "predictions.windows": ("FileScores",),
    "recordings.recording": ("Recording", "open"),
    "trainer.directory_dataset": ("video_dataset_from_directory",),
    "predictions.evaluation": ("Evaluation", "Mistake", "evaluate"),
    "trainer.head_room": ("head_room",),
    "trainer.position": ("Position",),
    "trainer.ray_workers": ("RayWorkers",),
    "stats.stats": ("ClipTimes", "SlowFile", "StreamStats", "WorkerStats"),
    "trainer.serial": ("decode_serially",),
    "trainer.stream": ("Stream",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_DOORS = ("jax", "keras", "torch")  # modules that help with one framework each

# What "import *" takes: `Position` imports Keras, and "open" would hide Python's own.
__all__ = [name for name in _HOME_OF if name not in ("Position", "open")]


def __getattr__(name: str) -> object:
    if name in _DOORS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_DOORS})
