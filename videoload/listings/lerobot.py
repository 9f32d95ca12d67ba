"""The tables of a LeRobot data set of version 3: what Parquet files say of its episodes and steps.

``meta/info.json`` tells the features, ``meta/episodes`` where the steps and the frames of each
episode are, and ``data`` has a row for each step. Steps of all episodes are numbered in a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError
from videoload.listings.columns import PathLike
from videoload.listings.folders import open_root, refusing
from videoload.storage.roots import files_below
from videoload.storage.stores import Store

Array = npt.NDArray[Any]
Deltas = Mapping[str, Sequence[float]]

_TASK, _INDEX, _EPISODE = "task_index", "index", "episode_index"
_NEVER_TARGETS = ("timestamp", _TASK)
_CLOSE_S = 1e-4  # to a multiple of 1 / fps, as LeRobot has it
_CONVERT = "python -m lerobot.datasets.v30.convert_dataset_v21_to_v30"


class Episodes(NamedTuple):
    """Episodes of a data set, and their steps.

    Attributes:
        files: The path of each episode's video, by camera.
        begins_s: When each episode begins in it, in seconds, float64 [N], by camera.
        fps: Steps and frames a second.
        begins: The first step of each episode, among ``steps``, int64 [N].
        ends: The step after its last one.
        numbers: Those of the episodes, int64 [N].
        steps: What is known of each step, [S, ...], by feature; ``task`` is text.
        offsets: Steps from the moment that are asked for, by feature.
    """

    files: dict[str, list[str]]
    begins_s: dict[str, npt.NDArray[np.float64]]
    fps: float
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    steps: dict[str, Array]
    offsets: dict[str, list[int]]


def read_episodes(
    root: PathLike,
    deltas: Deltas | None,
    cameras: Sequence[str] | None,
    episodes: Iterable[int] | None,
) -> Episodes:
    """Read the tables, as `Catalog.from_lerobot` says. Raises CatalogError."""
    tables = _Tables(root)
    info = tables.info()
    features, fps = info["features"], info["fps"]
    videos = [name for name, each in features.items() if each["dtype"] == "video"]
    seen = _cameras(tables.root, features, videos, cameras)
    offsets = {
        name: _offsets(name, seconds, features, fps) for name, seconds in (deltas or {}).items()
    }
    of = {
        (name, key): f"videos/{name}/{key}"
        for name in seen
        for key in ("chunk_index", "file_index", "from_timestamp")
    }
    places = ("data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index")
    found = tables.read(tables.files("meta/episodes"), [_EPISODE, *places, *of.values()])
    if episodes is not None:
        found = _chosen(found, list(episodes), tables.root)
    data = zip(found["data/chunk_index"].tolist(), found["data/file_index"].tolist(), strict=True)
    named = [info["data_path"].format(chunk_index=c, file_index=f) for c, f in sorted({*data})]
    columns = [
        name for name, each in features.items()
        if each["dtype"] not in ("video", "image") and name != "timestamp"
    ]  # fmt: skip
    steps = tables.read(named, columns)
    begins = np.searchsorted(steps[_INDEX], found["dataset_from_index"])
    ends = begins + found["dataset_to_index"] - found["dataset_from_index"]
    whole = np.diff(steps[_INDEX], prepend=steps[_INDEX][0] - 1) > 0
    fits = whole.all() and ends.max() <= len(whole)
    if not fits or (steps[_EPISODE][begins] != found[_EPISODE]).any():
        raise CatalogError(f"{tables.root}: the steps in meta/episodes are not those in data")
    steps["task"] = tables.tasks()[steps[_TASK]]
    files = {
        name: [
            info["video_path"].format(video_key=name, chunk_index=int(c), file_index=int(f))
            for c, f in zip(found[of[name, "chunk_index"]], found[of[name, "file_index"]],
                            strict=True)
        ]
        for name in seen
    }  # fmt: skip
    begins_s = {name: found[of[name, "from_timestamp"]].astype(np.float64) for name in seen}
    for name in _NEVER_TARGETS:
        steps.pop(name, None)
    return Episodes(files, begins_s, fps, begins, ends, found[_EPISODE], steps, offsets)


class _Tables:
    """The files of a data set, in a folder or below a URL. Raises CatalogError."""

    def __init__(self, root: PathLike) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise CatalogError(
                "LeRobot's tables are Parquet files: pip install videoload[lerobot]"
            ) from None
        self._arrow, self._parquet = pyarrow, parquet
        self.root = open_root(root)

    def info(self) -> dict[str, Any]:
        """What ``meta/info.json`` says."""
        name = "meta/info.json"
        try:
            info = json.loads(self._bytes(name))
            version = info["codebase_version"]
            if not version.startswith("v3."):
                raise CatalogError(
                    f"{self.root} is a LeRobot data set of version {version}, and 3.0 is read: "
                    f"convert it ({_CONVERT} --repo-id=...)"
                )
            if not info["video_path"]:
                raise CatalogError(f"{self.root} has no videos")
            info["features"], info["fps"], info["data_path"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CatalogError(f"{self.root}/{name} is no LeRobot data set's: {error!r}") from None
        return cast("dict[str, Any]", info)

    def files(self, folder: str) -> list[str]:
        """The tables in a folder, in their order."""
        if isinstance(self.root, str):
            with refusing():
                found = files_below(self.root, folder)
        else:
            found = [each.relative_to(self.root).as_posix() for each in (self.root / folder).glob(
                "*/*.parquet")]  # fmt: skip
        found = sorted(each for each in found if each.endswith(".parquet"))
        if not found:
            raise CatalogError(f"{self.root} has no {folder}/*/*.parquet")
        return found

    def read(self, files: Sequence[str], columns: Sequence[str]) -> dict[str, Array]:
        """The columns of these tables, one after the other."""
        parts = [self._read(name, columns) for name in files]
        made = {}
        for name in columns:
            made[name] = np.concatenate([part.pop(name) for part in parts])
            made[name].flags.writeable = False  # then it is not copied again
        self._arrow.default_memory_pool().release_unused()  # it would keep as much again
        return made

    def tasks(self) -> Array:
        """The text of each task, by its number."""
        name = "meta/tasks.parquet"
        found = self._read(name, None)
        texts = [each for each in found.values() if each.dtype.kind == "O"]
        if len(texts) != 1 or _TASK not in found:
            raise CatalogError(f"{self.root}/{name} has no text for each task")
        made = np.full(int(found[_TASK].max(initial=-1)) + 1, "", object)
        made[found[_TASK]] = texts[0]
        return made

    def _read(self, name: str, columns: Sequence[str] | None) -> dict[str, Array]:
        where = f"{self.root}/{name}"
        try:
            file = self._arrow.BufferReader(self._bytes(name))
            table = self._parquet.ParquetFile(file).read(columns=columns, use_threads=False)
            found = {each: _array(table.column(each)) for each in table.column_names}
        except CatalogError:
            raise
        except Exception as error:  # pyarrow has its own kinds
            raise CatalogError(f"{where} cannot be read: {error!s:.200}".splitlines()[0]) from None
        if left := {*(columns or ())} - {*found}:
            raise CatalogError(f"{where} has no column {min(left)!r}")
        return found

    def _bytes(self, name: str) -> bytes:
        if isinstance(self.root, Path):
            try:
                return (self.root / name).read_bytes()
            except OSError as error:
                raise CatalogError(f"{self.root / name}: {error.strerror}") from None
        import obstore

        def failed(error: Exception, _: float) -> None:
            raise CatalogError(f"{self.root}/{name}: {error!s:.200}".splitlines()[0]) from None

        store = Store(self.root)
        return store.ask(
            lambda where: bytes(obstore.get(where, name).bytes()), come=lambda: 0, failed=failed
        )


def _array(column: Any) -> Array:
    """A column of a table: numbers, text, or lists of numbers that all have one length."""
    rows, shape = len(column), []
    found = column.combine_chunks()
    while hasattr(found.type, "value_type") and not hasattr(found.type, "index_type"):
        found = found.flatten()
        shape.append(len(found) // (rows or 1))
        rows = len(found)
    array: Array = np.asarray(found.to_numpy(zero_copy_only=False))
    return array.reshape(-1, *shape) if shape else array


def _cameras(
    root: object, features: Mapping[str, Any], videos: list[str], cameras: Sequence[str] | None
) -> list[str]:
    pictures = [name for name, each in features.items() if each["dtype"] == "image"]
    wanted = videos + pictures if cameras is None else list(cameras)
    for name in wanted:
        if name in pictures:
            raise CatalogError(
                f"{root}: the pictures of {name!r} lie in its tables, not in videos: choose others "
                f"with cameras=, of {videos}"
            )
        if name not in videos:
            raise CatalogError(f"{root} has no camera {name!r}: it has {', '.join(videos)}")
    if not wanted:
        raise CatalogError(f"{root}: no cameras")
    return wanted


def _offsets(
    name: str, seconds: Sequence[float], features: Mapping[str, Any], fps: float
) -> list[int]:
    if name not in features or name in _NEVER_TARGETS:
        raise CatalogError(f"delta_timestamps names {name!r}, which is none of {[*features]}")
    if features[name]["dtype"] in ("video", "image"):
        raise CatalogError(
            f"delta_timestamps are not for the camera {name!r}: give its ClipSpec offsets="
        )
    steps = np.asarray(seconds, np.float64) * fps
    if steps.ndim != 1 or not len(steps) or (abs(steps - np.rint(steps)) > _CLOSE_S * fps).any():
        raise CatalogError(
            f"delta_timestamps of {name!r} must be multiples of 1/{fps:g} s, got {seconds!r:.80}"
        )
    return [int(each) for each in np.rint(steps)]


def _chosen(found: dict[str, Array], episodes: list[int], root: object) -> dict[str, Array]:
    place = {number: at for at, number in enumerate(found[_EPISODE].tolist())}
    if left := [each for each in episodes if each not in place]:
        raise CatalogError(f"{root} has no episode {left[0]}: it has {len(place)}")
    return {name: column[[place[each] for each in episodes]] for name, column in found.items()}
