"""`video_dataset_from_directory`: a folder of videos in one line, in Keras's words.

Keras's ``image_dataset_from_directory`` (Keras 3, ``dataset_utils.py``) fixes which file gets which
label, and which files are for validation. With the same names and the same seed, they are the same.

All such datasets of a process share one client, since a second pool of workers would only take
cores from the first. It lives as long as one of them: each stream holds its client.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from videoload.arguments import refuse_unknown, whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.columns import PathLike
from videoload.catalog.splitting import recording
from videoload.client.client import Client
from videoload.clips.clip_spec import ClipSpec, deterministic, height_and_width, varies_by
from videoload.errors import CatalogError, SpecError
from videoload.frameworks.label_modes import LabelMode, encode
from videoload.logs import Log

_log = Log(__name__)

_PIXELS = {"rgb": "rgb24", "grayscale": "gray"}
_MODES = ("int", "categorical", "binary", None)
_ON_BOTH_SIDES = (
    "validation_split goes by file, as in Keras, so recordings (that of %s) are on both sides, and "
    "the validation looks too good: give a folder for each side, or use Catalog.split(by=...)"
)
# By process, workers and frame store.
_clients: weakref.WeakValueDictionary[tuple[object, ...], Client] = weakref.WeakValueDictionary()


def video_dataset_from_directory(
    directory: PathLike,
    *,
    labels: Literal["inferred"] | None = "inferred",
    label_mode: LabelMode = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    frames: int = 16,
    stride: int = 1,
    fps: float | None = None,
    image_size: int | tuple[int, int] = (224, 224),
    shuffle: bool = True,
    seed: int = 0,
    drop_remainder: bool | None = None,
    validation_split: float | None = None,
    subset: Literal["training", "validation", "both"] | None = None,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    color_mode: Literal["rgb", "grayscale"] = "rgb",
    workers: int | None = None,
    frame_store: PathLike | None = None,
    verbose: bool = True,
    **clip: Any,
) -> Any:
    """Make a ``tf.data.Dataset`` of the videos in a directory, like Keras's
    ``image_dataset_from_directory``.

    Examples:
        >>> train, val = vl.video_dataset_from_directory(
        ...     "ucf101", batch_size=4, image_size=112, validation_split=0.2, subset="both"
        ... )
        Found 15 files belonging to 3 classes.
        Using 12 files for training.
        Using 3 files for validation.
        >>> history = model.fit(train, validation_data=val, shuffle=False, verbose=0)

    Arguments that Keras has too are called and mean what they do there, and with the same seed, the
    same files are for validation. What differs: all but ``directory`` are given by name, ``seed``
    is 0 and never None, labels are int64, linked folders are passed over, and clips are uint8, so
    that no batch is copied; layers like ``Rescaling`` take them, and ``dataset.map`` casts them. As
    in `Client.stream`, each iteration is the next epoch, the last batch of a shuffled one is left
    out if it is smaller, and clips are drawn where ``shuffle`` is. A dataset for validation, or
    without ``shuffle``, has the same clips each time: those in the middle of their videos, in the
    order of ``file_paths``.

    All such datasets of a process share the worker processes of one client. They end with the last
    of these datasets, or with the process. ``train.videoload`` is the stream behind a dataset: its
    figures, its bad videos, and the error that ended it.

    Args:
        directory: Folder, or URL of one in a bucket. With inferred labels, it has a sub-folder for
            each class.
        labels: ``"inferred"``, the default: from the sub-folders. None: no labels.
        label_mode: ``"int"``, the default: int64 [B]. ``"categorical"``: float32 [B, classes].
            ``"binary"``: float32 [B, 1] of two classes. None: no labels.
        class_names: The sub-folders to take, in the order of their labels. None, the default: all,
            sorted by name.
        batch_size: Clips in a batch (B). Default 32. None: single clips.
        frames: Frames in a clip (T). Default 16.
        stride: Source frames from one frame of a clip to the next. Default 1.
        fps: Frames per second of a clip, instead of ``stride``. Default None.
        image_size: (height, width) of the frames, or one number for both. Default (224, 224).
        shuffle: Another order in each iteration. Default True. False: the order of the sorted
            paths.
        seed: Of the split, the order and all that is drawn. Default 0.
        drop_remainder: Leave out the last batch of an epoch if it is smaller. None, the default:
            where ``shuffle`` is, but not for validation.
        validation_split: Share of the files for validation, between 0 and 1. Files of one recording
            may be on both sides; `Catalog.split` can group them. Default None.
        subset: ``"training"``, ``"validation"``, or ``"both"`` for the two datasets. Default None.
        crop_to_aspect_ratio: Cut out the largest part in the middle with the ratio of
            ``image_size``. Default False: frames are stretched.
        pad_to_aspect_ratio: Show whole frames, with black bars. Default False.
        color_mode: ``"rgb"``, the default: [T, H, W, 3]. ``"grayscale"``: [T, H, W, 1].
        workers: Worker processes, as in `Client`. Default None: one per core.
        frame_store: Folder for scaled frames, as in `Client`. Default None.
        verbose: Print how many files and classes there are. Default True.
        **clip: More fields of `ClipSpec`: ``flip=True``, ``sampling="uniform"``. A dataset for
            validation leaves out what is drawn.

    Returns:
        A ``tf.data.Dataset`` of (clips, labels), or of clips without labels: tf.uint8 [B, T, H, W,
        3]. It has ``class_names``, ``file_paths``, and ``videoload``, its `Stream`. With
        ``subset="both"``, a tuple of two.

    Raises:
        CatalogError: There are no videos, or the directory cannot be listed.
        SpecError: An argument is out of range, or contradicts another one.
        VideoloadError: TensorFlow is not installed; or as in `Client` and `Client.stream`.
    """
    own = inspect.signature(video_dataset_from_directory).parameters
    refuse_unknown(
        "video_dataset_from_directory", clip, [*own, *(each.name for each in fields(ClipSpec))]
    )
    if label_mode not in _MODES:
        raise SpecError(f"label_mode must be one of {_MODES}, got {label_mode!r}")
    _check_split(validation_split, subset)
    drawn = _spec(
        image_size, color_mode, crops=crop_to_aspect_ratio, pads=pad_to_aspect_ratio,
        more={"frames": frames, "stride": stride, "fps": fps, **clip},
    )  # fmt: skip
    seed = whole("seed", seed, None)
    size = 1 if batch_size is None else whole("batch_size", batch_size)
    mode = None if labels is None else label_mode
    catalog = listed(directory, labelled=mode is not None, class_names=class_names)
    names = catalog.classes if mode is not None else None
    if mode == "binary" and len(catalog.classes) != 2:
        raise SpecError(f'label_mode="binary" is for 2 classes, and there are {catalog.classes}')
    lines = [f"Found {len(catalog)} files"]
    lines[0] += "." if names is None else f" belonging to {len(names)} classes."
    if shuffle:
        catalog = shuffled(catalog, seed)
    parts: dict[str | None, Catalog] = {subset: catalog}
    if validation_split:
        training, validation = split(catalog, validation_split)
        both: dict[str | None, Catalog] = {"training": training, "validation": validation}
        parts = {name: part for name, part in both.items() if subset in (name, "both")}
        lines += [f"Using {len(part)} files for {name}." for name, part in parts.items()]
    if verbose:
        print("\n".join(lines), flush=True)
    client = _client(workers, frame_store)
    made = []
    for name, part in parts.items():
        trains = shuffle and name != "validation"
        stream = client.stream(
            part, drawn if trains else deterministic(drawn), size,
            shuffle=trains, seed=seed, drop_remainder=drop_remainder,
        )  # fmt: skip
        one = encode(stream.dataset(), mode, len(catalog.classes), rows=batch_size is not None)
        one.class_names, one.videoload = None if names is None else [*names], stream
        one.file_paths = [os.path.join(directory, path) for path in part.paths]
        made.append(one)
    return tuple(made) if subset == "both" else made[0]


def listed(
    directory: PathLike, *, labelled: bool, class_names: Sequence[str] | None = None
) -> Catalog:
    """Return the videos of a directory by class, sub-folder and name. Raises CatalogError."""
    if not labelled:
        return Catalog.from_folder(directory, label=None)
    catalog = Catalog.from_folder(directory)
    if class_names is None:
        return catalog
    if strange := [name for name in class_names if name not in catalog.classes]:
        raise SpecError(f"class_names={strange!r} are none of the sub-folders {catalog.classes}")
    of_class = [catalog.labels == catalog.classes.index(name) for name in class_names]
    videos = [i for chosen in of_class for i in np.flatnonzero(chosen).tolist()]
    labels = [label for label, chosen in enumerate(of_class) for _ in range(chosen.sum())]
    paths = [catalog.paths[i] for i in videos]
    chosen = Catalog(paths, labels, class_names, catalog.root)
    # As targets, which need not agree with the classes of other streams.
    return chosen.with_targets(chosen.labels)


def shuffled(catalog: Catalog, seed: int) -> Catalog:
    """Return all videos, in Keras's order for this seed."""
    order = np.arange(len(catalog))
    np.random.RandomState(seed % 2**32).shuffle(order)
    return catalog.subset(order)


def split(catalog: Catalog, validation_split: float) -> tuple[Catalog, Catalog]:
    """Return the videos to train on, and the last ones for validation. Warn if a recording, by its
    name, is on both sides. Raises CatalogError if one is empty."""
    last = len(catalog) - int(validation_split * len(catalog))
    if not 0 < last < len(catalog):
        raise CatalogError(
            f"{catalog.root}: validation_split={validation_split} of {len(catalog)} videos leaves "
            "one side empty"
        )
    training, validation = catalog[:last], catalog[last:]
    there = set(map(recording, validation.paths)) - {()}
    if path := next((path for path in training.paths if recording(path) in there), ""):
        _log.warning(_ON_BOTH_SIDES, path)
    return training, validation


def _spec(
    image_size: int | tuple[int, int], color_mode: str, *, crops: bool, pads: bool,
    more: dict[str, Any],
) -> ClipSpec:  # fmt: skip
    """Return the clips to train on. Raises SpecError."""
    if color_mode not in _PIXELS:
        raise SpecError(f"color_mode must be one of {[*_PIXELS]}, got {color_mode!r}")
    if varies_by(requested := ClipSpec(1, size=image_size)):
        raise SpecError("image_size is one size: give size= a list in a ClipSpec of a stream")
    height, width = height_and_width(requested)
    given: dict[str, Any] = {"size": (height, width), "pixels": _PIXELS[color_mode]}
    own_crop = "crop" in more or "resize" in more
    if crops + pads + own_crop > 1:
        raise SpecError(
            "give one of crop_to_aspect_ratio, pad_to_aspect_ratio, and crop and resize"
        )
    if crops and height == width and not height % 2:
        # Scaling does not depend on the crop, so a frame store can contain the frames.
        given |= {"resize": height, "crop": "center"}
    elif crops:
        # A region with the whole area and another ratio never fits, so the largest one is taken.
        given |= {"crop": "resized", "area": (1.0, 1.0), "ratio": (width / height, width / height)}
    elif not own_crop:
        given["crop"] = "pad" if pads else "stretch"
    return ClipSpec(**{**given, **more})


def _check_split(split: float | None, subset: str | None) -> None:
    if split and not 0 < split < 1:
        raise SpecError(f"validation_split must be between 0 and 1, got {split}")
    if bool(split) != bool(subset):
        raise SpecError("give validation_split and subset together")
    if subset not in ("training", "validation", "both", None):
        raise SpecError(f'subset must be "training", "validation" or "both", got {subset!r}')


def _client(workers: int | None, frame_store: PathLike | None) -> Client:
    """Return the client that such datasets of this process share."""
    store = None if frame_store is None else os.path.realpath(frame_store)
    key = os.getpid(), workers, store
    client = _clients.get(key)
    if client is None or client.closed:
        client = _clients[key] = Client(workers, frame_store=store)
    return client
