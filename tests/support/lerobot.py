"""Small LeRobot data sets: pictures and tables that say which step they are of."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.videos import make_avi

FPS, WIDE = 25, 3
TASKS = ["pick the cube", "push the T"]
CAMERAS = ["observation.images.top", "observation.images.wrist"]


def make_lerobot(root: Path, lengths: Sequence[int], seed: int = 0, *, videos: bool = True) -> Path:
    """A data set whose episodes have these lengths; LeRobot's own reader takes it, too. Camera k of
    ``CAMERAS`` has k + 2 episodes in a file, and picture n of a file is that of `make_avi`.
    ``action`` is (step, episode, frame)."""
    import pandas  # type: ignore[import-untyped]
    from pyarrow import FixedSizeListArray, array, parquet, table

    ends = np.cumsum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    frame = np.concatenate([np.arange(length) for length in lengths])
    step = np.arange(len(frame))
    features: dict[str, Any] = {
        camera: {"dtype": "video", "shape": [72, 96, 3]} for camera in CAMERAS
    }
    action = np.stack([step, episode, frame], 1).astype(np.float32)
    columns = {
        "action": FixedSizeListArray.from_arrays(array(action.ravel()), WIDE),
        "timestamp": (frame / FPS).astype(np.float32), "frame_index": frame,
        "episode_index": episode, "index": step, "task_index": step % len(TASKS),
    }  # fmt: skip
    where: dict[str, Any] = {
        "episode_index": np.arange(len(lengths)), "dataset_from_index": ends - lengths,
        "dataset_to_index": ends, "length": lengths, "data/chunk_index": 0 * ends,
        "data/file_index": np.arange(len(lengths)) // 3,
    }  # fmt: skip
    for k, camera in enumerate(CAMERAS):
        file, begin = np.arange(len(lengths)) // (k + 2), np.zeros(len(lengths))
        for number in range(file[-1] + 1):
            own = np.flatnonzero(file == number)
            begin[own] = (np.cumsum(np.array(lengths)[own]) - np.array(lengths)[own]) / FPS
            if videos:
                make_avi(root / f"videos/{camera}/chunk-000/file-{number:03}.mp4", seed=seed + k,
                         frames=sum(np.array(lengths)[own]), container_format="mp4")  # fmt: skip
        where |= {
            f"videos/{camera}/chunk_index": np.zeros(len(lengths), int),
            f"videos/{camera}/file_index": file, f"videos/{camera}/from_timestamp": begin,
            f"videos/{camera}/to_timestamp": begin + np.array(lengths) / FPS,
        }  # fmt: skip
    features |= {name: {"dtype": str(np.asarray(c).dtype), "shape": [1]}
                 for name, c in columns.items() if name != "action"}  # fmt: skip
    features["action"] = {"dtype": "float32", "shape": [WIDE]}
    for name in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / name).mkdir(parents=True)
    parquet.write_table(table(where), root / "meta/episodes/chunk-000/file-000.parquet")
    tasks = pandas.DataFrame({"task_index": np.arange(len(TASKS))}, index=TASKS)
    tasks.to_parquet(root / "meta/tasks.parquet")
    every = table(columns)
    for number in range(len(lengths) // 3 + 1):
        own = np.flatnonzero(episode // 3 == number)
        if len(own):
            name = f"data/chunk-000/file-{number:03}.parquet"
            parquet.write_table(every.slice(own[0], len(own)), root / name)
    info = {
        "codebase_version": "v3.0", "fps": FPS, "features": features, "chunks_size": 1000,
        "total_episodes": len(lengths), "total_frames": len(step), "total_tasks": len(TASKS),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info))
    stats = {"mean": action.mean(0).tolist(), "std": action.std(0).tolist()}
    (root / "meta/stats.json").write_text(json.dumps({"action": stats}))
    return root


def change_info(root: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Let ``change`` change what ``meta/info.json`` says."""
    file = root / "meta/info.json"
    info = json.loads(file.read_text())
    change(info)
    file.write_text(json.dumps(info))
    return root


def change_rows(root: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """Let ``change`` change the columns of a table, by their names."""
    from pyarrow import parquet, table

    file = root / f"{name}.parquet"
    columns = parquet.read_table(file).to_pydict()
    changed = change(columns)
    parquet.write_table(table(changed if isinstance(changed, dict) else columns), file)
    return root
