"""`video_dataset_from_directory`: a folder of videos in one line, in Keras's words.

All such datasets of a process share one client, since a second pool of workers would only take
cores from the first. It lives as long as one of them: each stream keeps its client alive.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.directories import Listing, list_directory
from videoload.catalog.joining import moved_class
from videoload.clips.choices import FROM_SCALED
from videoload.clips.clip_spec import ClipSpec, height_and_width
from videoload.errors import SpecError, VideoloadError
from videoload.frameworks.label_modes import LabelMode, encode
from videoload.listings.columns import PathLike
from videoload.processes.native_size import native_size
from videoload.trainer.client import Client
from videoload.trainer.stream import Stream

_log = logging.getLogger(__name__)

_PIXELS = {"rgb": "rgb24", "grayscale": "gray"}
_OWN = ("frames", "stride", "fps", "size")  # of a ClipSpec, with a name here
_CLIP = tuple(field.name for field in fields(ClipSpec) if field.name not in _OWN)
_MODES = ("int", "categorical", "binary", None)
_NOT_HERE = {  # arguments of Keras
    "interpolation": 'frames are scaled bilinearly, and scaling="nearest" mixes no pixels',
    "data_format": "channels are last; `dataset.map` can transpose clips",
}
_LOOK_S = 10.0  # at the first video
_ON_BOTH_SIDES = (
    "validation_split goes by file, as in Keras, so recordings (that of %s) are on both sides, and "
    "the validation looks too good: give a folder for each side, or use Catalog.split(by=...)"
)
_OTHER_NUMBERS = (
    "the class %r has the label %d in %s, and %d in %s: give both the same sub-folders (an empty "
    "one is a class, too), or the labels of one mean other classes"
)

# The directory and the classes of each stream that lives.
_classes: weakref.WeakKeyDictionary[Stream, tuple[str, tuple[str, ...]]]
_classes = weakref.WeakKeyDictionary()
# By process, workers and frame store.
_clients: weakref.WeakValueDictionary[tuple[object, ...], Client] = weakref.WeakValueDictionary()


def video_dataset_from_directory(
    directory: PathLike,
    *,
    labels: Literal["inferred"] | Sequence[float] | None = "inferred",
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
    follow_links: bool = False,
    workers: int | Literal["auto"] = "auto",
    frame_store: PathLike | None = None,
    verbose: bool = True,
    **clip: Any,
) -> Any:
    """Make a ``tf.data.Dataset`` of the videos in a directory, like Keras's
    ``image_dataset_from_directory``.

        train, val = vl.video_dataset_from_directory(
            "ucf101", frames=16, image_size=112, validation_split=0.2, subset="both", seed=0
        )
        model.fit(train, validation_data=val, epochs=10)

    Arguments that Keras has too are called and mean what they do there, its messages are the same,
    and with the same seed, the same files are for validation. What differs: all but ``directory``
    are given by name, ``seed`` is 0 and never None, labels are int64, and clips are uint8, so that
    no batch is copied; layers like ``Rescaling`` take them, and ``dataset.map`` can cast them. As
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
        labels: ``"inferred"``, the default: from the sub-folders. None: no labels. Or a list of
            numbers, one for each file in the order of the sorted paths.
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
            may be on both sides; `Catalog.split` can keep them together. Default None.
        subset: ``"training"``, ``"validation"``, or ``"both"`` for the two datasets. Default None.
        crop_to_aspect_ratio: Cut out the largest part in the middle with the ratio of
            ``image_size``. Default False: frames are stretched.
        pad_to_aspect_ratio: Keep whole frames, with black bars. Default False.
        color_mode: ``"rgb"``, the default: [T, H, W, 3]. ``"grayscale"``: [T, H, W, 1].
        follow_links: Also list linked folders. Default False.
        workers: Worker processes, as in `Client`. Default ``"auto"``: one per core.
        frame_store: Folder that keeps scaled frames, as in `Client`. Default None.
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
    if label_mode not in _MODES:
        raise SpecError(
            '`label_mode` argument must be one of "int", "categorical", "binary", or None. '
            f"Received: label_mode={label_mode}"
        )
    _check_split(validation_split, subset)
    drawn = _spec(
        frames=frames, stride=stride, fps=fps, image_size=image_size, color_mode=color_mode,
        crops=crop_to_aspect_ratio, pads=pad_to_aspect_ratio, more=clip,
    )  # fmt: skip
    seed = whole("seed", seed, None)
    size = 1 if batch_size is None else whole("batch_size", batch_size)
    if label_mode is None:
        labels = None
    files = list_directory(directory, labels, class_names, follow_links=follow_links)
    mode = None if files.labels is None else label_mode
    _check_mode(files, mode)
    names = files.class_names or () if mode is not None and labels == "inferred" else ()
    _warn_of_other_numbers(str(directory), names)
    told = [str(files)]
    if shuffle:
        files = files.shuffled(seed)
    parts: dict[str | None, Listing] = {subset: files}
    if validation_split:
        training, validation = files.split(validation_split)
        if path := training.on_both_sides(validation):
            _log.warning(_ON_BOTH_SIDES, path)
        both: dict[str | None, Listing] = {"training": training, "validation": validation}
        parts = {name: part for name, part in both.items() if subset in (name, "both")}
        told += [f"Using {len(part.paths)} files for {name}." for name, part in parts.items()]
    if verbose:
        print("\n".join(told), flush=True)
    client = _client(workers, frame_store)
    warn_if_turned(files.catalog(), drawn)
    made = []
    for name, part in parts.items():
        trains = shuffle and name != "validation"
        stream = client.stream(
            part.catalog(), drawn if trains else without_draws(drawn), size,
            shuffle=trains, seed=seed, drop_remainder=drop_remainder,
        )  # fmt: skip
        _classes[stream] = str(directory), tuple(names)
        one = encode(
            stream.dataset(), mode, len(part.class_names or ()), rows=batch_size is not None
        )
        one.class_names, one.file_paths, one.videoload = part.class_names, part.file_paths, stream
        made.append(one)
    return tuple(made) if subset == "both" else made[0]


def warn_if_turned(catalog: Catalog, spec: ClipSpec) -> None:
    """Warn if clips stand upright and the first video lies, or the other way round."""
    height, width = height_and_width(spec)
    if width == height:
        return
    with suppress(VideoloadError):  # a stream names what is wrong with its videos
        first = native_size(catalog, ClipSpec(frames=1), silence_s=_LOOK_S, cache=None)
        assert isinstance(first, ClipSpec)
        down, across = height_and_width(first)
        if (across - down) * (width - height) < 0:
            _log.warning(
                "clips are %d wide and %d high, and the first video is %d wide and %d high: "
                "image_size is (height, width)", width, height, across, down,
            )  # fmt: skip


def without_draws(spec: ClipSpec) -> ClipSpec:
    """The spec for validation: nothing of a clip is random. Several views of a sample stay as they
    are, since they would all be the same."""
    if spec.views > 1:
        return spec
    still: dict[str, Any] = {"flip": False, "jitter": None, "grayscale": 0.0}
    if spec.sampling == "random":
        still["sampling"] = "center"
    if spec.crop == "random":
        still["crop"] = "center"
    elif spec.crop in FROM_SCALED:
        still |= _largest(*height_and_width(spec))
    return replace(spec, **still)


def _largest(height: int, width: int) -> dict[str, Any]:
    """The fields of a spec for the largest part in the middle with the ratio of a size."""
    # A region with the whole area and another ratio never fits, so the largest one is taken.
    return {"crop": "resized", "area": (1.0, 1.0), "ratio": (width / height, width / height)}


def _spec(
    *, frames: int, stride: int, fps: float | None, image_size: object, color_mode: str,
    crops: bool, pads: bool, more: dict[str, Any],
) -> ClipSpec:  # fmt: skip
    """The clips to train on. Raises SpecError."""
    for name in more:
        if name in _NOT_HERE:
            raise SpecError(f"there is no `{name}`: {_NOT_HERE[name]}")
        if name not in _CLIP:
            raise SpecError(
                f"unknown argument {name!r}: besides its own arguments, "
                f"video_dataset_from_directory takes fields of ClipSpec: {', '.join(_CLIP)}"
            )
    if color_mode not in _PIXELS:
        raise SpecError(
            f'`color_mode` must be one of {{"rgb", "grayscale"}}. Received: color_mode={color_mode}'
        )
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise SpecError(
            "Invalid `image_size` value. Expected a tuple of 2 integers. Received: "
            f"image_size={image_size}"
        )
    if crops and pads:
        raise SpecError(
            "Only one of `pad_to_aspect_ratio` and `crop_to_aspect_ratio` can be set to `True`."
        )
    given = {
        "frames": frames, "stride": stride, "fps": fps, "size": size,
        "pixels": _PIXELS[color_mode],
    }  # fmt: skip
    if "crop" not in more and "resize" not in more:
        square = size[0] == size[1] and not size[0] % 2
        if not crops:
            given["crop"] = "pad" if pads else "stretch"
        elif square:  # then frames are scaled alike whatever is cut, and a frame store keeps them
            given |= {"resize": size[0], "crop": "center"}
        else:
            given |= _largest(*height_and_width(ClipSpec(frames=1, size=tuple(size))))
    elif crops or pads:
        raise SpecError("give crop_to_aspect_ratio or pad_to_aspect_ratio, or crop and resize")
    return ClipSpec(**{**given, **more})


def _check_split(split: float | None, subset: str | None) -> None:
    if split and not 0 < split < 1:
        raise SpecError(f"`validation_split` must be between 0 and 1, received: {split}")
    if bool(split) != bool(subset):
        raise SpecError("If `subset` is set, `validation_split` must be set, and inversely.")
    if subset not in ("training", "validation", "both", None):
        raise SpecError(
            f'`subset` must be either "training", "validation" or "both", received: {subset}'
        )


def _check_mode(files: Listing, mode: LabelMode) -> None:
    """Raises SpecError if labels cannot be encoded like this."""
    names = files.class_names or []
    if mode == "binary" and len(names) != 2:
        raise SpecError(
            'When passing `label_mode="binary"`, there must be exactly 2 class_names. Received: '
            f"class_names={names}"
        )
    if mode == "categorical" and not np.array_equal(files.labels, files.numbers):  # type: ignore[arg-type]
        raise SpecError(
            f'`label_mode="categorical"` needs labels from 0 to {len(names) - 1}, without gaps. '
            f"Received: {', '.join(names)}"
        )


def _warn_of_other_numbers(directory: str, names: Sequence[str]) -> None:
    """Warn if a class has another label than in another directory, as if one lacks a class."""
    for other, theirs in set(_classes.values()):
        if other != directory and (name := moved_class(names, theirs)) is not None:
            _log.warning(_OTHER_NUMBERS, name, names.index(name), directory, theirs.index(name),
                         other)  # fmt: skip


def _client(workers: int | Literal["auto"], frame_store: PathLike | None) -> Client:
    """The client that such datasets of this process share."""
    store = None if frame_store is None else os.path.realpath(frame_store)
    key = os.getpid(), workers, store
    client = _clients.get(key)
    if client is None or client.closed:
        client = _clients[key] = Client(workers, frame_store=store)
    return client
