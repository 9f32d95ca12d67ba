"""Clips of any length in buckets: the same bytes from any number of workers, whoever dies, wherever
it is resumed, and with equal shapes on all ranks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, PerFrame, VideoError, decode_serially
from videoload import open as open_video

pytestmark = pytest.mark.timeout(120 * SECOND)

FILES = 200
CLIP = ClipSpec("all", max_frames=64, stride=2, resize=16, size=16, crop="random", flip=True)
HOW: dict[str, Any] = {"batch_size": 8, "buckets": (16, 32, 48, 64), "shuffle": True, "seed": 4}
SMALL: dict[str, Any] = {**HOW, "batch_size": None, "batch_frames": 128, "drop_remainder": False}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Files of 20 to 400 frames, 42 000 in all."""
    root, draw = tmp_path_factory.mktemp("lengths"), random.Random(1)
    for number in range(FILES):
        path = root / f"{number:03}.avi"
        make_avi(path, frames=draw.randint(20, 400), size=(16, 24), seed=number)
    return Catalog.from_folder(root, label=None)


@pytest.mark.parametrize("short", ["zero", "hold"])
@pytest.mark.parametrize("rhythm", [{"stride": 3}, {"fps": 10}], ids=["stride", "fps"])
def test_each_clip_is_its_video_and_the_rest_is_padding(
    catalog: Catalog, short: Any, rhythm: Any
) -> None:
    some = catalog.subset(range(24))
    clip = replace(CLIP, stride=1, size=None, resize=None, crop="center", flip=False, short=short)
    clip = replace(clip, **rhythm)
    seen = []
    for clips, _, info in decode_serially(some, clip, info=True, **SMALL):
        frames = clips.shape[1]
        assert len(clips) <= 128 // frames
        assert info.lengths.dtype == np.int64
        assert (info.mask == (np.arange(frames) < info.lengths[:, None])).all()
        assert np.isnan(info.times[~info.mask]).all()
        assert (info.frames[~info.mask] == -1).all()
        for row, length, numbers, video in zip(
            clips, info.lengths, info.frames, info.video, strict=True
        ):
            path = Path(str(some.root)) / some.paths[video]
            with open_video(path) as file:
                wanted = file.frames(numbers[:length].tolist())
                last = int(numbers[length - 1])
                step = 3 if "stride" in rhythm else 2.5
                whole = (np.arange(-(-len(file) // step)) * step).astype(int).tolist()
            assert (row[:length] == wanted).all()
            rest = 0 if short == "zero" else row[length - 1]
            assert (row[length:] == rest).all()
            if len(whole) > 64:
                assert length == frames == 64
                continue
            assert numbers[:length].tolist() == whole
            assert last == whole[-1]
            smaller = [0, *(bucket for bucket in HOW["buckets"] if bucket < frames)][-1]
            assert smaller < length <= frames
        seen += info.video.tolist()
    assert sorted(seen) == list(range(24))


def test_ranks_have_equal_shapes_at_each_step_and_each_clip_once(
    catalog: Catalog, client: Client
) -> None:
    streams = [client.stream(catalog, CLIP, **HOW, shard=(rank, 3)) for rank in range(3)]
    seen: Counter[int] = Counter()
    kinds: Counter[int] = Counter()
    for batches in zip(*(stream.batches(0, info=True) for stream in streams), strict=True):
        (shape,) = {clips.shape for clips, _, _ in batches}
        kinds[shape[1]] += 1
        for _, _, info in batches:
            seen.update(info.video.tolist())
    assert len(streams[0]) == sum(kinds.values())
    assert set(seen.values()) == {1}
    assert len(seen) == 3 * 8 * len(streams[0])
    assert len({stream.fingerprint for stream in streams}) == 1
    alone = client.stream(catalog, CLIP, **HOW | {"buckets": (64,)}, shard=(0, 3))
    assert alone.fingerprint != streams[0].fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("own", [0, 7])
def test_clips_are_of_the_copies_that_were_counted(
    own: int, tmp_path: Path, programs: Programs
) -> None:
    names = [f"{number}.avi" for number in range(16)]
    for host, frames in (("one", 60), ("other", 20)):
        for seed, name in enumerate(names):
            make_avi(tmp_path / host / name, frames=frames, size=(16, 24), seed=seed)
    for name in names[:own]:  # that the trainer has itself
        make_avi(tmp_path / "own" / name, frames=40, size=(16, 24))
        (tmp_path / "one" / name).write_bytes((tmp_path / "own" / name).read_bytes())
    root = tmp_path / "own" if own else None
    clip = ClipSpec("all", max_frames=64, size=16, resize=16)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        for host in ("one", "other"):
            programs.worker(client.endpoints[0], tmp_path / host)
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        stream = client.stream(Catalog(names, root=root), clip, 1, buckets=(24, 40, 64))
        for clips, _, info in stream.batches(info=True):
            assert info.lengths.tolist() == [{24: 20, 40: 40, 64: 60}[clips.shape[1]]]
            assert (info.lengths[0] == 40) == (info.path[0] in names[:own])


@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_a_file_that_cannot_be_read_is_named_and_its_place_keeps_its_shape(
    catalog: Catalog, client: Client, on_error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Path(str(catalog.root)) / "bad.avi"
    bad.write_bytes(b"RIFF")
    try:
        some = Catalog(["bad.avi", *catalog.paths[:20]], root=catalog.root)
        how: dict[str, Any] = {**SMALL, "on_error": on_error}
        stream = client.stream(some, CLIP, **how)
        got = list(stream.batches(info=True))
        assert [video.path for video in stream.quarantine] == ["bad.avi"]
        (said,) = [text for text in caplog.messages if "bad.avi" in text]
        assert said.endswith("are left out" if on_error == "skip" else "replace it")
        assert digests(got) == digests(decode_serially(some, CLIP, info=True, **how))
        seen = sorted(video for _, _, info in got for video in info.video.tolist())
        assert 0 not in seen
        assert set(seen) == set(range(1, 21))
        assert len(seen) == 21 - (on_error == "skip")
        with pytest.raises(VideoError, match="bad"):
            list(decode_serially(some, CLIP, **{**how, "on_error": "raise"}))
    finally:
        bad.unlink()


def test_points_of_frames_follow_the_frames_that_are_shown(catalog: Catalog) -> None:
    some = catalog.subset(range(8))
    lengths = [len_of(some, path) for path in some.paths]
    numbers = [np.arange(length) for length in lengths]

    labelled = some.with_targets(PerFrame(numbers))
    for _, labels, info in decode_serially(
        labelled, replace(CLIP, short="hold"), info=True, **SMALL
    ):
        held = np.take_along_axis(info.frames, info.lengths[:, None] - 1, 1)
        assert (labels == np.where(info.mask, info.frames, held)).all()


def len_of(catalog: Catalog, path: str) -> int:
    with open_video(Path(str(catalog.root)) / path) as file:
        return len(file)


def test_a_file_that_changes_after_it_was_counted_is_named(tmp_path: Path, client: Client) -> None:
    for name in "ab":
        make_avi(tmp_path / f"{name}.avi", frames=5, size=(16, 24))
    clip = ClipSpec("all", max_frames=40, size=16, resize=16)
    videos = Catalog.from_folder(tmp_path, label=None)
    stream = client.stream(videos, clip, 1, buckets=(8, 40))
    make_avi(tmp_path / "b.avi", frames=20, size=(16, 24))
    assert [info.lengths.tolist() for _, _, info in stream.batches(info=True)] == [[5], [8]]
    assert stream.changed == ["b.avi"]


def test_a_catalog_that_is_wrong_about_lengths_shows_what_is_there(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    lengths = [len_of(catalog, path) for path in catalog.paths[:4]]
    wrong = Catalog(catalog.paths[:4], root=catalog.root, frames=[8, 8, 400, 400])
    clip, buckets = replace(CLIP, frames="all", stride=1, max_frames=400), (10, 400)
    shown = {}
    for clips, _, info in decode_serially(wrong, clip, 1, buckets=buckets, info=True):
        shown[int(info.video[0])] = clips.shape[1], int(info.lengths[0])
    assert shown == {
        0: (10, 10), 1: (10, 10), 2: (400, lengths[2]), 3: (400, lengths[3])
    }  # fmt: skip
    assert all(word in caplog.text for word in ("4 of 4", "frame counts", "000.avi"))
