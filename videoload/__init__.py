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
import os
import sys
from typing import TYPE_CHECKING

if sys.platform != "linux" or not hasattr(os, "sched_getaffinity"):
    raise ImportError(f"videoload runs on Linux, and this is {sys.platform}: take a container")

if TYPE_CHECKING:  # "as" marks a name as public for type checkers
    from videoload import jax as jax
    from videoload import keras as keras
    from videoload import torch as torch
    from videoload.catalog.catalog import Catalog as Catalog
    from videoload.catalog.joining import mix as mix
    from videoload.catalog.targets import Boxes as Boxes
    from videoload.catalog.targets import OneOf as OneOf
    from videoload.catalog.targets import PerFrame as PerFrame
    from videoload.catalog.targets import Points as Points
    from videoload.catalog.targets import Steps as Steps
    from videoload.client.client import Client as Client
    from videoload.client.directory_dataset import (
        video_dataset_from_directory as video_dataset_from_directory,
    )
    from videoload.client.serial import decode_serially as decode_serially
    from videoload.client.stream import Stream as Stream
    from videoload.clips.clip_spec import ClipSpec as ClipSpec
    from videoload.clips.tasks import Count as Count
    from videoload.clips.tasks import FileReport as FileReport
    from videoload.clips.tasks import Fingerprint as Fingerprint
    from videoload.clips.tasks import Identify as Identify
    from videoload.clips.tasks import Report as Report
    from videoload.clips.tasks import WindowCount as WindowCount
    from videoload.decoding.recording import open as open
    from videoload.errors import CatalogError as CatalogError
    from videoload.errors import ClosedError as ClosedError
    from videoload.errors import SpecError as SpecError
    from videoload.errors import StorageError as StorageError
    from videoload.errors import TooManyBadVideos as TooManyBadVideos
    from videoload.errors import TransformError as TransformError
    from videoload.errors import TransportError as TransportError
    from videoload.errors import VideoError as VideoError
    from videoload.errors import VideoloadError as VideoloadError
    from videoload.errors import WorkerError as WorkerError
    from videoload.tools.evaluation import evaluate as evaluate
    from videoload.tools.predict import predict as predict

__version__ = "0.1.0"

_HOMES = {
    "catalog.catalog": ("Catalog",),
    "catalog.joining": ("mix",),
    "catalog.targets": ("Boxes", "OneOf", "PerFrame", "Points", "Steps"),
    "clips.clip_spec": ("ClipSpec",),
    "clips.tasks": ("Count", "FileReport", "Fingerprint", "Identify", "Report", "WindowCount"),
    "errors": (
        "CatalogError",
        "ClosedError",
        "SpecError",
        "StorageError",
        "TooManyBadVideos",
        "TransformError",
        "TransportError",
        "VideoError",
        "VideoloadError",
        "WorkerError",
    ),
    "tools.evaluation": ("evaluate",),
    "tools.predict": ("predict",),
    "decoding.recording": ("open",),
    "client.client": ("Client",),
    "client.directory_dataset": ("video_dataset_from_directory",),
    "client.serial": ("decode_serially",),
    "client.stream": ("Stream",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_DOORS = ("jax", "keras", "torch")  # modules that help with one framework each

# What "import *" takes: "open" would hide Python's own.
__all__ = [name for name in _HOME_OF if name != "open"]


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
