"""A LeRobot dataset of version 3: the episodes, steps and cameras in its tables.

``meta/info.json`` contains the features, ``meta/episodes`` the places of the steps and frames of
each episode, and ``data`` a row for each step. Each row is compared with the other tables: a
missing row must not shift the labels of later rows.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import PathLike
from videoload.catalog.lerobot_tables import Array, Tables, checked_pattern, path_by
from videoload.clips.moments import Times
from videoload.clips.step_times import MAX_RUNS, MAX_STEPS, StepTimes, runs_of
from videoload.errors import CatalogError
from videoload.logs import Log

Deltas = Mapping[str, Sequence[float]]
Ints = npt.NDArray[np.int64]

_log = Log(__name__)

_TASK, _TIME = "task_index", "timestamp"
_INDEX, _EPISODE, _FRAME = "index", "episode_index", "frame_index"
_ROWS = (_INDEX, _EPISODE, _FRAME)  # identify a row
_NEVER_TARGETS = (_TIME, _TASK)
_CLOSE_S = 1e-4  # to a multiple of 1 / fps, as LeRobot has it
_CONVERT = "python -m lerobot.datasets.v30.convert_dataset_v21_to_v30"


class Episodes(NamedTuple):
    """Episodes of a dataset, and their steps.

    Attributes:
        files: The path of each episode's video, by camera.
        begins_s: When the first step of each is shown in the first camera's file, float64 [N].
        ends_s: When its last one ends.
        times: When the steps of each are shown.
        begins: The first step of each episode, among ``steps``, int64 [N].
        ends: The step after its last one.
        numbers: Numbers of the episodes, int64 [N].
        steps: The features of each step, [S, ...], by name; ``task`` is text.
        offsets: The requested steps, relative to the moment, by feature.
        stats: ``meta/stats.json``, by feature and then by name.
    """

    files: dict[str, list[str]]
    begins_s: Times
    ends_s: Times
    times: tuple[StepTimes, ...]
    begins: Ints
    ends: Ints
    numbers: Ints
    steps: dict[str, Array]
    offsets: dict[str, list[int]]
    stats: dict[str, dict[str, Array]]


class _Info(NamedTuple):
    """``meta/info.json``, checked: the features, by their name, that are in tables and can be used,
    with their shape; and why others cannot."""

    fps: float
    data_path: str
    video_path: str
    features: dict[str, dict[str, Any]]
    columns: dict[str, tuple[int, ...]]
    flaws: dict[str, str]


def read_episodes(
    root: PathLike,
    deltas: Deltas | None,
    cameras: Sequence[str] | None,
    episodes: Iterable[int] | None,
    tolerance_s: float,
) -> Episodes:
    """Read the tables for `Catalog.from_lerobot`. Raises CatalogError."""
    if not (isinstance(tolerance_s, int | float) and 0 <= tolerance_s <= 1e9):
        raise CatalogError(f"tolerance_s must be seconds, at least 0, got {tolerance_s!r:.80}")
    tables = Tables(root)
    info = _checked_info(tables)
    seen = _cameras(tables.root, info.features, cameras)
    if not isinstance(deltas or {}, Mapping):
        raise CatalogError(
            "delta_timestamps must be a dict of columns, as {'action': [0, 0.1]}, got "
            f"{deltas!r:.80}"
        )
    offsets = {name: _offsets(name, wanted, info) for name, wanted in (deltas or {}).items()}
    found = _episode_rows(tables, seen, episodes)
    numbers = found[_EPISODE]
    steps = _steps(tables, info, found, [*offsets])
    begins, ends = _bounds(tables, info, found, steps)
    steps["task"] = _texts(tables, steps[_TASK])
    starts = {name: found[f"videos/{name}/from_timestamp"] for name in seen}
    times, lasts = _times(tables, info, found, steps, (begins, ends), starts, tolerance_s)
    files = {name: _paths(info, found, name) for name in seen}
    lead_s = starts[seen[0]]
    for name in _NEVER_TARGETS:
        steps.pop(name, None)
    return Episodes(
        files, lead_s, lead_s + lasts + 1 / info.fps, times, begins, ends, numbers, steps, offsets,
        _stats(tables),
    )  # fmt: skip


def _checked_info(tables: Tables) -> _Info:
    """Return ``meta/info.json``. Raises CatalogError."""
    where, info = f"{tables.root}/meta/info.json", tables.json("meta/info.json")
    version = info.get("codebase_version")
    if not isinstance(version, str):
        raise CatalogError(
            f"{where} does not describe a LeRobot dataset: it has no codebase_version"
        )
    if not version.startswith("v3."):
        raise CatalogError(
            f"{tables.root} is a LeRobot dataset of version {version:.40}, but only v3.0 is "
            f"supported: "
            f"convert it with `{_CONVERT} --repo-id=...`"
        )
    fps, features = info.get("fps"), info.get("features")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= 1e6:
        raise CatalogError(f"{where}: fps must be a number of steps a second, got {fps!r:.80}")
    if not isinstance(features, dict):
        raise CatalogError(f"{where}: features must be an object, got {features!r:.80}")
    if not info.get("video_path"):
        raise CatalogError(f"{tables.root} has no videos: {where} has no video_path")
    data = checked_pattern(f"{where}: data_path", info.get("data_path"))
    video = checked_pattern(f"{where}: video_path", info["video_path"])
    columns, flaws = dict[str, tuple[int, ...]](), dict[str, str]()
    for name, each in features.items():
        dtype = each.get("dtype") if isinstance(each, dict) else None
        shape = each.get("shape") if isinstance(each, dict) else None
        is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        if not isinstance(dtype, str):
            flaws[name] = "it has no dtype"
        elif dtype in ("video", "image"):
            continue
        elif dtype == "language":
            flaws[name] = "its dtype is language"
        elif not is_shape or not isinstance(shape, list):
            flaws[name] = "it has no shape"
        elif 0 in shape:
            flaws[name] = f"its shape is {shape}"
        else:
            columns[name] = tuple(shape)
    usable = {name: each for name, each in features.items() if name not in flaws}
    return _Info(float(fps), data, video, usable, columns, flaws)


def _cameras(root: object, features: Mapping[str, Any], cameras: Sequence[str] | None) -> list[str]:
    """Return the requested cameras. Raises CatalogError."""
    flaws = {}
    for name, each in features.items():
        if each["dtype"] == "image":
            flaws[name] = "has its pictures in the tables, not in videos"
        elif each["dtype"] == "video" and _is_depth(each):
            flaws[name] = "is a depth camera, whose videos contain coded distances, not colors"
        elif each["dtype"] == "video":
            flaws[name] = ""
    usable = [name for name, flaw in flaws.items() if not flaw]
    if isinstance(cameras, str):
        raise CatalogError(f"cameras= takes a list of names, as [{cameras!r}]")
    wanted = list(flaws) if cameras is None else list(cameras)
    hint = f"choose with cameras=, of {usable}" if usable else "it has no other camera"
    for name in wanted:
        if name not in flaws:
            raise CatalogError(f"{root} has no camera {name!r}: {hint}")
        if flaws[name]:
            raise CatalogError(f"{root}: {name!r} {flaws[name]}: {hint}")
    if not wanted:
        raise CatalogError(f"{root}: cameras={cameras!r} names none: {hint}")
    if len({*wanted}) < len(wanted):
        raise CatalogError(f"{root}: cameras={wanted} names one twice")
    return wanted


def _is_depth(feature: Mapping[str, Any]) -> bool:
    notes = [feature, *(feature.get(key) for key in ("info", "video_info"))]
    return any(
        bool(each.get(key))
        for each in notes
        if isinstance(each, Mapping)
        for key in ("is_depth_map", "video.is_depth_map")
    )


def _offsets(name: str, seconds: Sequence[float], info: _Info) -> list[int]:
    """Return seconds from the step as steps. Raises CatalogError."""
    if name in info.flaws:
        raise CatalogError(
            f"delta_timestamps names {name!r}, which cannot be used: {info.flaws[name]}"
        )
    if name in info.features and name not in info.columns:
        raise CatalogError(
            f"delta_timestamps are not for the camera {name!r}: give its ClipSpec offsets="
        )
    if name not in info.columns or name in _NEVER_TARGETS:
        usable = [each for each in info.columns if each not in _NEVER_TARGETS]
        raise CatalogError(f"delta_timestamps names {name!r}, which is not one of {usable}")
    try:
        steps = np.asarray(seconds, np.float64) * info.fps
    except (TypeError, ValueError):
        steps = np.empty(0)
    is_list = steps.ndim == 1 and len(steps) and bool((abs(steps) < MAX_STEPS).all())
    if not is_list or (abs(steps - np.rint(steps)) > _CLOSE_S * info.fps).any():
        raise CatalogError(
            f"delta_timestamps of {name!r} must be multiples of 1/{info.fps:g} s, got "
            f"{seconds!r:.80}"
        )
    return [int(each) for each in np.rint(steps)]


def _episode_rows(
    tables: Tables, cameras: list[str], episodes: Iterable[int] | None
) -> dict[str, Array]:
    """Return the requested rows of ``meta/episodes``. Raises CatalogError."""
    keys = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
    names = [
        _EPISODE, "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index",
        *(f"videos/{name}/{key}" for name in cameras for key in keys),
    ]  # fmt: skip
    optional = [name for name in names if name.endswith("/to_timestamp")]
    found, _ = tables.read(tables.files("meta/episodes"), dict.fromkeys(names, ()), optional)
    where = f"{tables.root}/meta/episodes"
    for name, column in found.items():
        whole = not name.endswith("_timestamp")
        if column.dtype.kind not in ("iu" if whole else "iuf"):
            raise CatalogError(f"{where}: column {name!r} must be numbers, not {column.dtype}")
        if (wrong := np.flatnonzero(~(np.abs(column.astype(np.float64)) < 2**53))).size:
            raise CatalogError(f"{where}: column {name!r} has {column[wrong[0]]} in row {wrong[0]}")
        if whole and (wrong := np.flatnonzero(column < 0)).size:
            raise CatalogError(f"{where}: column {name!r} has {column[wrong[0]]} in row {wrong[0]}")
        found[name] = column.astype(np.int64 if whole else np.float64)
    place = {number: at for at, number in enumerate(found[_EPISODE].tolist())}
    if len(place) < len(found[_EPISODE]):
        raise CatalogError(f"{where}: an episode has two rows")
    if not place:
        raise CatalogError(f"{where} has no episodes")
    if episodes is not None:
        rows = _chosen(place, episodes, tables.root)
        found = {name: column[rows] for name, column in found.items()}
    lengths = found["dataset_to_index"] - found["dataset_from_index"]
    if (wrong := np.flatnonzero((lengths < 1) | (lengths > MAX_STEPS))).size:
        raise CatalogError(
            f"{where}: episode {found[_EPISODE][wrong[0]]} has {lengths[wrong[0]]} steps"
        )
    return found


def _chosen(place: Mapping[int, int], episodes: Iterable[int], root: object) -> list[int]:
    """Return the rows of the requested episodes. Raises CatalogError."""
    numbers = sorted(place)
    there = f"it has {len(numbers)}, from {numbers[0]} to {numbers[-1]}"
    if len(numbers) <= numbers[-1] - numbers[0]:
        there += ", and not each of these"
    try:
        wanted = [operator.index(each) for each in episodes]
    except TypeError:
        raise CatalogError(
            f"{root}: episodes= takes a list of integers, got {episodes!r:.80}: {there}"
        ) from None
    if not wanted:
        raise CatalogError(f"{root}: episodes= names none: {there}")
    if left := [each for each in wanted if each not in place]:
        raise CatalogError(f"{root} has no episode {left[0]}: {there}")
    if twice := [each for at, each in enumerate(wanted) if each in wanted[:at]][:1]:
        raise CatalogError(f"{root}: episodes= names {twice[0]} twice")
    return [place[each] for each in wanted]


def _steps(
    tables: Tables, info: _Info, found: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    """Return the rows of ``data`` in the files of these episodes. Raises CatalogError. The log
    names what is left out."""
    data = zip(found["data/chunk_index"].tolist(), found["data/file_index"].tolist(), strict=True)
    named = [
        path_by(info.data_path, "data_path", chunk_index=chunk, file_index=file)
        for chunk, file in sorted({*data})
    ]
    columns = dict.fromkeys((*_ROWS, _TASK), (1,)) | info.columns
    needed = {*_ROWS, _TASK, *wanted, *([_TIME] if _TIME in columns else [])}
    steps, flaws = tables.read(named, columns, [name for name in columns if name not in needed])
    if left := info.flaws | flaws:
        text = "; ".join(f"{name}: {flaw}" for name, flaw in left.items())
        _log.warning("%s: these features are left out: %s", tables.root, text)
    for name in (*_ROWS, _TASK, *([_TIME] if _TIME in columns else [])):
        steps[name] = steps[name].reshape(len(steps[name]))
        if steps[name].dtype.kind not in ("iuf" if name == _TIME else "iu"):
            raise CatalogError(
                f"{tables.root}/data: column {name!r} must be numbers, not {steps[name].dtype}"
            )
    return steps


def _bounds(
    tables: Tables, info: _Info, found: Mapping[str, Array], steps: Mapping[str, Array]
) -> tuple[Ints, Ints]:
    """Return the first row of each episode, and the one after its last, if its rows match
    ``meta/episodes``. Raises CatalogError."""
    index, where = steps[_INDEX].astype(np.int64), f"{tables.root}/data"
    if (back := np.flatnonzero(np.diff(index) <= 0)).size:
        raise CatalogError(
            f"{where}: column {_INDEX!r} has {index[back[0] + 1]} behind {index[back[0]]}"
        )
    first, last = found["dataset_from_index"], found["dataset_to_index"]
    begins = np.searchsorted(index, first)
    ends = begins + last - first
    for number, begin, end, start in zip(
        found[_EPISODE].tolist(), begins.tolist(), ends.tolist(), first.tolist(), strict=True
    ):
        rows = np.arange(end - begin)
        for name, expected in (
            (_INDEX, start + rows), (_EPISODE, np.full(len(rows), number)), (_FRAME, rows),
        ):  # fmt: skip
            column = (index if name == _INDEX else steps[name])[begin:end]
            if len(column) < len(rows):
                raise CatalogError(
                    f"{where}: episode {number} has {len(column)} rows, but in meta/episodes "
                    f"{len(rows)}"
                )
            wrong = np.flatnonzero(column != expected)
            if wrong.size and not (name == _FRAME and _are_left_out(info, steps, begin, end)):
                at = int(wrong[0])
                raise CatalogError(
                    f"{where}: column {name!r} has {column[at]} in row {at} of episode {number}, "
                    f"and it must be {expected[at]}"
                )
    return begins, ends


def _are_left_out(info: _Info, steps: Mapping[str, Array], begin: int, end: int) -> bool:
    """Return whether frames are left out of an episode: their numbers rise, and so do their
    times."""
    if _TIME not in steps:
        return False
    frames, times = steps[_FRAME][begin:end], steps[_TIME][begin:end]
    rises = bool((np.diff(frames.astype(np.int64)) > 0).all())
    return rises and bool((np.abs(times * info.fps - frames) < 0.5).all())


def _texts(tables: Tables, numbers: Array) -> Array:
    """Return the text of each step's task. Raises CatalogError."""
    texts = tables.tasks(_TASK)
    known, task = np.unique(numbers, return_inverse=True)
    if unknown := [number for number in known.tolist() if number not in texts]:
        row = int(np.argmax(numbers == unknown[0]))
        raise CatalogError(
            f"{tables.root}/data: column {_TASK!r} has {unknown[0]} in row {row}, and "
            f"meta/tasks.parquet has no such task, of {len(texts)}"
        )
    found: Array = np.array([texts[number] for number in known.tolist()], object)[task]
    return found


def _times(
    tables: Tables,
    info: _Info,
    found: Mapping[str, Array],
    steps: Mapping[str, Array],
    bounds: tuple[Ints, Ints],
    starts: Mapping[str, Times],
    tolerance_s: float,
) -> tuple[tuple[StepTimes, ...], Times]:
    """Return when the steps of each episode are shown, and when its last one is, from its
    beginning. Raises CatalogError."""
    given = steps[_TIME] if _TIME in steps else steps[_FRAME] / info.fps
    rounding, times = np.abs(np.spacing(given)).astype(np.float64), given.astype(np.float64)
    made, lasts = [], []
    for row, (begin, end) in enumerate(zip(*(each.tolist() for each in bounds), strict=True)):
        own, number = times[begin:end], int(found[_EPISODE][row])
        if (wrong := np.flatnonzero(~(np.abs(own) < 1e9))).size:
            raise CatalogError(
                f"{tables.root}/data: column {_TIME!r} has {own[wrong[0]]} in row {wrong[0]} of "
                f"episode {number}"
            )
        runs = runs_of(own, info.fps, rounding[begin:end])
        if len(runs) > 16 * MAX_RUNS:
            raise CatalogError(
                f"{tables.root}/data: the times of episode {number} are not 1 / fps apart at more "
                f"than {MAX_RUNS} of its steps"
            )
        for name, start in starts.items():
            to_s = found.get(f"videos/{name}/to_timestamp")
            if to_s is not None and start[row] + own.max() > to_s[row] - _CLOSE_S:
                raise CatalogError(
                    f"{tables.root}: the last step of episode {number} is at "
                    f"{start[row] + own.max():.6g} s of camera {name!r}, but in meta/episodes "
                    f"that the episode ends at {to_s[row]:.6g} s (to_timestamp)"
                )
        begins_s = tuple(float(start[row]) for start in starts.values())
        made.append(StepTimes(end - begin, info.fps, begins_s, float(tolerance_s), runs, number))
        lasts.append(float(made[-1].times.max()))
    return tuple(made), np.array(lasts)


def _paths(info: _Info, found: Mapping[str, Array], camera: str) -> list[str]:
    """Return the file of each episode. Raises CatalogError."""
    places = [found[f"videos/{camera}/{key}"].tolist() for key in ("chunk_index", "file_index")]
    return [
        path_by(info.video_path, "video_path", video_key=camera, chunk_index=chunk, file_index=file)
        for chunk, file in zip(*places, strict=True)
    ]


def _stats(tables: Tables) -> dict[str, dict[str, Array]]:
    """Return ``meta/stats.json``; nothing if there is no such file, or what it has is no number."""
    try:
        found = tables.json("meta/stats.json")
    except CatalogError as error:
        _log.info("%s", error)
        return {}
    made: dict[str, dict[str, Array]] = {}
    for name, each in found.items():
        made[name] = {}
        for key, value in each.items() if isinstance(each, dict) else ():
            try:
                array = np.array(value, np.float64)
            except (TypeError, ValueError):
                continue
            array.flags.writeable = False
            made[name][key] = array
    return made
