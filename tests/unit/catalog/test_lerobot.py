"""The tables of a LeRobot data set: what contradicts itself is refused by its name."""

import copy
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.lerobot import CAMERAS, FPS, change_info, change_rows, make_lerobot
from videoload.catalog.catalog import Catalog
from videoload.catalog.targets import named
from videoload.errors import CatalogError

pa = pytest.importorskip("pyarrow")

DATA, EPISODES = "data/chunk-000/file-000", "meta/episodes/chunk-000/file-000"
LENGTHS = [4, 3, 5]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lerobot(tmp_path_factory.mktemp("robot"), LENGTHS, videos=False)


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "set"))


def values_of(catalog: Catalog, name: str) -> Any:
    targets: Any = catalog.targets
    return targets[name].values


def put(column: str, row: int, value: Any) -> Any:
    return lambda columns: columns[column].__setitem__(row, value)


def without(row: int) -> Any:
    return lambda columns: {name: v[:row] + v[row + 1 :] for name, v in columns.items()}


def with_feature(root: Path, name: str, values: Any, feature: Any) -> Path:
    change_info(root, lambda info: info["features"].update({name: feature}))
    return change_rows(root, DATA, lambda columns: {**columns, name: values})


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (without(2), "index"), (without(11), "episode 2"),
        (put("frame_index", 3, 2), "frame_index"),
        (put("frame_index", 1, 2), "frame_index"), (put("episode_index", 3, 1), "episode_index"),
        (put("index", 6, 5), "index"), (put("task_index", 7, -1), "task_index"),
        (put("task_index", 7, 7), "task_index"), (put("timestamp", 5, float("nan")), "timestamp"),
        (put("timestamp", 5, 9.0), "to_timestamp"), (put("index", 6, None), "index"),
    ],
)  # fmt: skip
def test_each_row_is_compared(root: Path, change: Any, column: str) -> None:
    with pytest.raises(CatalogError, match=column):
        Catalog.from_lerobot(change_rows(root, DATA, change))


def test_steps_may_be_left_out_if_their_times_are(root: Path) -> None:
    def leave_out(columns: dict[str, Any]) -> None:
        columns["frame_index"][4:7] = [0, 1, 5]
        columns["timestamp"][4:7] = [0, 1 / FPS, 5 / FPS]

    change_rows(root, DATA, leave_out)
    with pytest.raises(CatalogError, match="episode 1"):
        Catalog.from_lerobot(root)
    names = [f"videos/{camera}/to_timestamp" for camera in CAMERAS]
    change_rows(root, EPISODES, lambda columns: [columns.pop(name) for name in names])
    assert values_of(Catalog.from_lerobot(root), "frame_index").tolist()[4:7] == [0, 1, 5]


@pytest.mark.parametrize(
    "values",
    [
        [[1.0, 1.0]] * 5 + [None] + [[2.0, 2.0]] * 6,
        pa.array([[1.0, 1.0]] * 5 + [None] + [[2.0, 2.0]] * 6, pa.list_(pa.float32(), 2)),
        [[1.0, 1.0]] * 5 + [[1.0]] + [[1.0, 2.0, 3.0]] + [[2.0, 2.0]] * 5,
        [[1.0, 1.0]] * 5 + [[1.0, None]] + [[2.0, 2.0]] * 6,
        pa.array([[1.0, 1.0, 1.0]] * 12, pa.list_(pa.float32(), 3)),
        [[[1.0, 2.0]]] * 12,
        [1.0] * 12,
    ],
)
def test_lists_have_the_shape_that_is_told(root: Path, values: Any) -> None:
    with pytest.raises(CatalogError, match="'x'"):
        Catalog.from_lerobot(with_feature(root, "x", values, {"dtype": "float32", "shape": [2]}))


@pytest.mark.parametrize(
    ("values", "feature"),
    [
        (pa.array([[]] * 12, pa.list_(pa.float32())), {"dtype": "float32", "shape": [0]}),
        ([[{"role": "user"}]] * 12, {"dtype": "language", "shape": [1]}),
        ([[{"role": "user"}]] * 11 + [[]], {"dtype": "odd", "shape": [1]}),
        ([None] + ["x"] * 11, {"dtype": "string", "shape": [1]}),
        ([1.0] * 12, {"shape": [1]}),
        ([1.0] * 12, {"dtype": "float32"}),
        ([1.0] * 12, None),
    ],
)
def test_what_cannot_be_used_is_left_out_and_named(
    root: Path, values: Any, feature: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with_feature(root, "x", values, feature)
    with caplog.at_level(logging.WARNING):
        catalog = Catalog.from_lerobot(root)
    assert {"action", "x"} & {*named(catalog.targets)} == {"action"}
    assert [record.getMessage().count("x: ") for record in caplog.records] == [1]
    with pytest.raises(CatalogError, match="'x'"):
        Catalog.from_lerobot(root, {"x": [0.0]})


@pytest.mark.parametrize("deltas", [{"timestamp": [0.0]}, {"task_index": [0.0]}, [0.0, 0.1]])
def test_delta_timestamps_that_cannot_be_used_name_what_can(root: Path, deltas: Any) -> None:
    with pytest.raises(CatalogError, match="action") as raised:
        Catalog.from_lerobot(root, deltas)
    assert str(raised.value).count("task_index") <= ("task_index" in deltas)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"codebase_version": "v2.1"}, "convert"), ({"codebase_version": None}, "codebase_version"),
        ({"fps": "10"}, "fps"), ({"fps": 0}, "fps"), ({"fps": True}, "fps"),
        ({"features": []}, "features"), ({"video_path": None}, "no videos"),
        ({"video_path": "videos/{episode_chunk:03d}/{video_key}.mp4"}, "episode_chunk"),
        ({"video_path": "../{video_key}/{chunk_index}/{file_index}.mp4"}, "out of the root"),
        ({"data_path": "/dev/zero"}, "data_path"), ({"data_path": 3}, "data_path"),
        ({"data_path": "/{chunk_index}/{file_index}"}, "out of the root"),
        ({"data_path": "../{chunk_index}/{file_index}"}, "out of the root"),
        ({"data_path": "{chunk_index:>99999999999}/{file_index}"}, "chunk_index"),
        ({"data_path": "{chunk_index.real}/{file_index}"}, "chunk_index.real"),
        ({"data_path": "{chunk_index!r}/{file_index}"}, "chunk_index"),
        ({"data_path": "{chunk_index"}, "data_path"),
    ],
)  # fmt: skip
def test_what_a_set_says_of_itself_is_checked(
    root: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(CatalogError, match=words) as caught:
        Catalog.from_lerobot(change_info(root, lambda info: info.update(change)))
    assert "Error(" not in str(caught.value)


def test_a_camera_may_not_lead_out_of_the_root(root: Path) -> None:
    def rename(info: dict[str, Any]) -> None:
        info["features"] = {"../../x": info["features"].pop(CAMERAS[0]), **info["features"]}

    def renamed(columns: dict[str, Any]) -> dict[str, Any]:
        return {name.replace(CAMERAS[0], "../../x"): v for name, v in columns.items()}

    change_rows(change_info(root, rename), EPISODES, renamed)
    with pytest.raises(CatalogError, match="out of the root"):
        Catalog.from_lerobot(root)


@pytest.mark.parametrize("value", [[None, 0, 0], [0, -1, 0], [0.5, 0, 0], ["a", "b", "c"]])
def test_the_place_of_a_file_is_a_number(root: Path, value: Any) -> None:
    name = f"videos/{CAMERAS[0]}/chunk_index"
    change_rows(root, EPISODES, lambda columns: columns.update({name: value}))
    with pytest.raises(CatalogError, match=name):
        Catalog.from_lerobot(root)


def test_an_episode_that_runs_beyond_its_end_is_named(root: Path) -> None:
    name = f"videos/{CAMERAS[1]}/to_timestamp"
    change_rows(root, EPISODES, lambda columns: columns[name].__setitem__(1, 6 / FPS))
    with pytest.raises(CatalogError, match=f"episode 1.*{CAMERAS[1]}"):
        Catalog.from_lerobot(root)


@pytest.mark.parametrize("episodes", [[3], [], [0.5], "1", [1, 1], 1, [True, False]])
def test_which_episodes_exist_is_said(root: Path, episodes: Any) -> None:
    if episodes == [True, False]:
        assert len(Catalog.from_lerobot(root, episodes=episodes)) == 2
        return
    with pytest.raises(CatalogError, match=r"episodes=|episode 3"):
        Catalog.from_lerobot(root, episodes=episodes)


@pytest.mark.parametrize("note", ["info", "video_info"])
def test_depth_is_refused(root: Path, note: str) -> None:
    def is_depth(info: dict[str, Any]) -> None:
        info["features"][CAMERAS[1]][note] = {"video.is_depth_map": True}

    change_info(root, is_depth)
    with pytest.raises(CatalogError, match=CAMERAS[1]):
        Catalog.from_lerobot(root)
    assert len(Catalog.from_lerobot(root, cameras=CAMERAS[:1])) == len(LENGTHS)


@contextmanager
def registered() -> Iterator[Any]:
    """A type of two dimensions, as the library ``datasets`` registers it when it is imported."""

    class Array2D(pa.ExtensionType):  # type: ignore[misc, name-defined]
        def __init__(self, shape: Any, dtype: str) -> None:
            self.shape, self.value_type = tuple(shape), dtype
            storage = pa.list_(pa.list_(getattr(pa, dtype)()))
            super().__init__(storage, "videoload.tests.Array2D")

        def __arrow_ext_serialize__(self) -> bytes:
            return json.dumps((self.shape, self.value_type)).encode()

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
            return cls(*json.loads(serialized))

    kind = Array2D((2, 2), "float32")
    pa.register_extension_type(kind)
    try:
        yield kind
    finally:
        pa.unregister_extension_type("videoload.tests.Array2D")


def test_types_of_other_libraries_are_read_as_what_they_store(root: Path) -> None:
    with registered() as kind:
        cells = pa.array([[[float(s), 1.0], [2.0, 3.0]] for s in range(12)], kind.storage_type)
        values = pa.ExtensionArray.from_storage(kind, cells)
        change_info(root, lambda info: info["features"].update(
            {"grid": {"dtype": "float32", "shape": [2, 2]}}
        ))  # fmt: skip
        from pyarrow import parquet

        file = root / f"{DATA}.parquet"
        parquet.write_table(parquet.read_table(file).append_column("grid", values), file)
        found = values_of(Catalog.from_lerobot(root), "grid")
    assert found.shape == (12, 2, 2)
    assert found[3].tolist() == [[3.0, 1.0], [2.0, 3.0]]


def test_values_and_statistics_are_there_for_a_training(root: Path) -> None:
    stats = {"action": {"mean": [1.0, 2.0, 3.0], "count": [12]}, "odd": {"min": "a"}, "odder": 3}
    (root / "meta/stats.json").write_text(json.dumps(stats))
    catalog = Catalog.from_lerobot(root, episodes=[2, 0])
    action = values_of(catalog, "action")
    assert action[:, 1].tolist() == [2] * 5 + [0] * 4
    assert values_of(catalog[1:], "action").tolist() == action[5:].tolist()
    assert catalog.stats["action"]["mean"].tolist() == [1.0, 2.0, 3.0]
    assert copy.copy(catalog) == catalog
    for words in ("2 episodes", "9 steps", "3 files"):
        assert words in repr(catalog)
    assert [*catalog.paths[0].split("\n")] == [
        f"videos/{camera}/chunk-000/file-00{n}.mp4"
        for camera, n in zip(CAMERAS, (1, 0), strict=True)
    ]
    (root / "meta/stats.json").write_text("no JSON")
    assert Catalog.from_lerobot(root).stats == {}


def test_episodes_are_split_and_joined_with_their_times(root: Path) -> None:
    catalog = Catalog.from_lerobot(root)
    first, rest = catalog.split(0.5, seed=1)
    assert len(first) + len(rest) == len(LENGTHS)
    assert Catalog.concat([catalog[:1], catalog[1:]]) == catalog
    assert Catalog.from_lerobot(root, tolerance_s=0.01) != catalog
    alone = Catalog.from_lerobot(root, cameras=CAMERAS[:1])
    with pytest.raises(CatalogError, match="from_lerobot"):
        Catalog.concat([alone, Catalog(["a.avi"], root=root)])
    with pytest.raises(CatalogError, match="tolerance_s"):
        Catalog.from_lerobot(root, tolerance_s=np.nan)
