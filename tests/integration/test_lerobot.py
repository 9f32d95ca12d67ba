"""LeRobot's data sets: a sample is a step, with the pictures and the actions around it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import videoload as vl
from tests.support.digests import digests
from tests.support.lerobot import CAMERAS, FPS, TASKS, change_rows, make_lerobot
from tests.support.needs import needs_lerobot
from tests.support.servers import bucket
from tests.support.videos import make_avi

pytest.importorskip("pyarrow")
LENGTHS = [9, 20, 14, 31, 6, 11]
AHEAD = [0, 1, 4]
DELTAS = {"action": [n / FPS for n in AHEAD]}
STEP: dict[str, Any] = {
    "sampling": "dense", "hop": 1, "edges": "hold", "size": (24, 32), "crop": "stretch",
}  # fmt: skip
CLIP = {
    CAMERAS[0]: vl.ClipSpec(offsets=(0,), **STEP),
    CAMERAS[1]: vl.ClipSpec(offsets=(-5, -1, 0, 3), **STEP),
}
HOW: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "drop_remainder": False}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lerobot(tmp_path_factory.mktemp("robot"), LENGTHS)


def first_in_file(episode: int, at_once: int) -> int:
    """The first frame of an episode in its file, which has so many episodes."""
    return sum(LENGTHS[episode // at_once * at_once : episode])


def test_every_step_comes_once_with_what_is_around_it(root: Path) -> None:
    catalog = vl.Catalog.from_lerobot(root, DELTAS)
    assert len(catalog) == len(LENGTHS)
    begins, seen = np.cumsum([0, *LENGTHS]), []
    for _, targets, info in vl.decode_serially(catalog, CLIP, info=True, **HOW):
        named = cast(dict[str, Any], targets)
        frames = cast(dict[str, Any], info.frames)
        for b, step in enumerate(named["index"].tolist()):
            seen.append(step)
            episode = int(np.searchsorted(begins, step, "right")) - 1
            first, last = begins[episode], begins[episode + 1] - 1
            frame = step - first
            assert named["episode_index"][b] == episode
            assert named["frame_index"][b] == frame
            assert named["task"][b] == TASKS[step % 2]
            wanted = step + np.array(AHEAD)
            chunk = [[at, episode, at - first] for at in np.minimum(wanted, last)]
            assert named["action"][b].tolist() == chunk
            assert named["action_is_pad"][b].tolist() == (wanted > last).tolist()
            for at_once, name in enumerate(CAMERAS, 2):
                shown = frame + np.array(CLIP[name].offsets)
                within = (shown >= 0) & (shown <= last - first)
                there = np.where(within, first_in_file(episode, at_once) + shown, -1)
                assert frames[name][b].tolist() == there.tolist()
    assert sorted(seen) == [*range(sum(LENGTHS))]


@needs_lerobot
def test_each_step_is_that_of_lerobots_own_loader(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from lerobot.datasets import video_utils
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    seconds = {name: [n / FPS for n in CLIP[name].offsets or ()] for name in CAMERAS}
    theirs: Any = LeRobotDataset("some/set", root=root, delta_timestamps={**seconds, **DELTAS})
    catalog = vl.Catalog.from_lerobot(root, DELTAS)
    whole = {name: replace(clip, size=None, crop="center") for name, clip in CLIP.items()}
    seen = 0
    for given, targets, info in vl.decode_serially(catalog, whole, info=True, **HOW):
        clips, named, frames = (
            cast(dict[str, Any], each) for each in (given, targets, info.frames)
        )
        for b, step in enumerate(named["index"].tolist()):
            item, seen = theirs[step], seen + 1
            for name in ("action", "action_is_pad", "episode_index", "frame_index", "task"):
                assert np.array_equal(named[name][b], item[name]), name
            for name in CAMERAS:
                assert ((frames[name][b] < 0) == item[f"{name}_is_pad"].numpy()).all()
                pictures = item[name].numpy()  # a single one has no axis of time
                pictures = pictures.reshape(-1, *pictures.shape[-3:]).transpose(0, 2, 3, 1) * 255
                assert np.abs(pictures - clips[name][b]).max() < 4, "scalers round otherwise"
    assert seen == len(theirs) == sum(LENGTHS)
    video_utils._default_decoder_cache.clear()  # else files stay open


@pytest.fixture(scope="module")
def in_bucket(root: Path) -> Iterator[vl.Catalog]:
    """The data set in a bucket. Obstore keeps an event loop from the first read on."""
    with bucket(root) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield vl.Catalog.from_lerobot("s3://clips/data", DELTAS)


def test_workers_and_a_bucket_give_the_same(root: Path, in_bucket: vl.Catalog) -> None:
    catalog = vl.Catalog.from_lerobot(root, DELTAS)
    serial = digests(vl.decode_serially(catalog, CLIP, info=True, **HOW))
    with vl.Client(workers=2) as client:
        for each in (catalog, in_bucket):
            stream = client.stream(each, CLIP, **HOW)
            assert digests(stream.batches(info=True)) == serial


def test_sets_are_mixed_split_and_chosen_by_episode(root: Path, tmp_path: Path) -> None:
    other = make_lerobot(tmp_path / "other", [7, 12], seed=5)
    both = [vl.Catalog.from_lerobot(each, DELTAS) for each in (root, other)]
    mixed = vl.mix({"a": (both[0], 0.5), "b": (both[1], 0.5)})
    for clips, targets in vl.decode_serially(mixed, CLIP, 4):
        assert {*cast(dict[str, Any], clips)} == {*CAMERAS}
        assert cast(dict[str, Any], targets)["action"].shape[1:] == (3, 3)
    some = vl.Catalog.from_lerobot(root, DELTAS, CAMERAS[:1], episodes=[4, 1])
    steps = [
        step
        for _, targets in vl.decode_serially(some, CLIP[CAMERAS[0]], 3, drop_remainder=False)
        for step in cast(dict[str, Any], targets)["index"].tolist()
    ]
    begins = np.cumsum([0, *LENGTHS])
    assert steps == [*range(begins[4], begins[5]), *range(begins[1], begins[2])]
    alone = vl.Catalog.from_lerobot(root, cameras=CAMERAS[:1])
    train, rest = alone.split(0.5, seed=1, by=range(len(alone)))
    assert len(train) + len(rest) == len(LENGTHS)


def shown_by_step(catalog: vl.Catalog, clip: Any) -> dict[int, Any]:
    """The frames of each step, by its index."""
    found = {}
    how: dict[str, Any] = {"batch_size": 1, "info": True, "on_error": "skip"}
    for _, targets, info in vl.decode_serially(catalog, clip, **how):
        named = cast(dict[str, Any], targets)
        frames = info.frames if isinstance(info.frames, dict) else {"": info.frames}
        found[int(named["index"][0])] = {name: each[0].tolist() for name, each in frames.items()}
    return found


def refilm(root: Path, camera: str, times: list[float], rate: int = FPS) -> None:
    """Exchange the first file of a camera for one whose pictures have these times."""
    file = root / f"videos/{camera}/chunk-000/file-000.mp4"
    file.unlink()
    make_avi(file, times=times, rate=rate, container_format="mp4")


def test_pictures_are_found_by_the_times_of_their_file(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "set", [9, 20])
    refilm(root, CAMERAS[0], [n / 50 for n in range(66)], 50)  # at twice the rate of the steps

    def leave_out(columns: dict[str, Any]) -> None:  # of the second episode, what was idle
        columns["timestamp"][9:] = [(n + 3 * (n > 4)) / FPS for n in range(20)]

    change_rows(root, "data/chunk-000/file-000", leave_out)
    change_rows(
        root, "meta/episodes/chunk-000/file-000",
        lambda columns: {name: c for name, c in columns.items() if "to_timestamp" not in name},
    )  # fmt: skip
    refilm(root, CAMERAS[1], [n / FPS for n in range(33)])
    found = shown_by_step(vl.Catalog.from_lerobot(root), CLIP)
    at = [*range(9), *(9 + n + 3 * (n > 4) for n in range(20))]
    assert [found[step][CAMERAS[0]] for step in range(29)] == [[2 * n] for n in at]
    around = [[*range(0, 9)], [*range(9, 29)]]
    for steps in around:
        for step in steps:
            shown = [step + k for k in (-5, -1, 0, 3)]
            wanted = [at[k] if k in steps else -1 for k in shown]
            assert found[step][CAMERAS[1]] == wanted


def test_an_episode_without_a_picture_is_named_or_shows_the_nearest(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "set", [9, 7])
    refilm(root, CAMERAS[0], [n / FPS for n in range(16) if n != 4])
    clip = CLIP[CAMERAS[0]]
    strict = vl.Catalog.from_lerobot(root, cameras=CAMERAS[:1])
    some = vl.Catalog.from_lerobot(root, cameras=CAMERAS[:1], episodes=[1])
    assert [*shown_by_step(strict, clip)] == [*range(9, 16)]
    with pytest.raises(vl.VideoError, match=r"episode 0.*step 4"):
        [*vl.decode_serially(strict, clip, 1, on_error="raise")]
    for catalog, row in ((strict, 0), (vl.mix({"a": (some, 0.5), "b": (strict, 0.5)}), 1)):
        with vl.Client(workers=1) as client:
            stream = client.stream(catalog, clip, 4, on_error="skip")
            got = [len(clips) for clips, _ in stream.batches(epochs=1)]
            stats = stream.stats()
        assert stats.bad_rows == (row,)
        assert cast(dict[str, Any], catalog.targets)["episode_index"][row] == 0
        assert (stats.batches, stats.clips) == (len(got), sum(got))
    coarse = vl.Catalog.from_lerobot(root, DELTAS, cameras=CAMERAS[:1], tolerance_s=1 / FPS)
    found = shown_by_step(coarse, clip)
    assert [found[step][""] for step in range(16)] == [[n - (n > 3)] for n in range(16)]
    serial = digests(vl.decode_serially(coarse, clip, info=True, **HOW))
    for _, targets in vl.decode_serially(coarse, clip, 16):  # two steps show one picture
        named = cast(dict[str, Any], targets)
        assert named["action"][:, 0, 0].tolist() == named["index"].tolist() == [*range(16)]
    with vl.Client(workers=2) as client:
        stream = client.stream(coarse, clip, **HOW)
        assert digests(stream.batches(info=True)) == serial


@pytest.mark.parametrize(
    ("change", "how", "words"),
    [
        ({"codebase_version": "v2.1"}, {}, "v2.1"),
        ({}, {"cameras": ["left"]}, "left"),
        ({}, {"episodes": [6]}, "6"),
        ({}, {"delta_timestamps": {"action": [0.03]}}, "1/25"),
        ({}, {"delta_timestamps": {CAMERAS[0]: [0.0]}}, "offsets="),
        ({}, {"delta_timestamps": {"reward": [0.0]}}, "reward"),
        ({"dtype": "image"}, {}, CAMERAS[1]),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    root: Path, tmp_path: Path, change: dict[str, str], how: dict[str, Any], words: str
) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    if "dtype" in change:
        info["features"][CAMERAS[1]] |= change
    else:
        info |= change
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(json.dumps(info))
    for name in ("meta/episodes", "meta/tasks.parquet", "data", "videos"):
        (tmp_path / name).symlink_to(root / name)
    with pytest.raises(vl.CatalogError, match=words):
        vl.Catalog.from_lerobot(tmp_path, **how)
