"""Clips of any length in buckets: the same bytes from any number of workers, whoever dies, wherever
it is resumed, and with equal shapes on all ranks."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.programs import Programs
from tests.support.videos import make_avi, make_lengths
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload import open as open_video

FILES = 200
CLIP = ClipSpec("all", max_frames=64, stride=2, resize=16, size=16, crop="random", flip=True)
HOW: dict[str, Any] = {"batch_size": 8, "buckets": (16, 32, 48, 64), "shuffle": True, "seed": 4}
SMALL: dict[str, Any] = {**HOW, "batch_size": None, "batch_frames": 128, "drop_remainder": False}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Files of 20 to 400 frames, 42 000 in all."""
    root, draw = tmp_path_factory.mktemp("lengths"), random.Random(1)
    make_lengths(root, [draw.randint(20, 400) for _ in range(FILES)])
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


def test_a_file_that_changes_after_it_was_counted_is_named(tmp_path: Path, client: Client) -> None:
    for name in "ab":
        make_avi(tmp_path / f"{name}.avi", frames=5, size=(16, 24))
    clip = ClipSpec("all", max_frames=40, size=16, resize=16)
    videos = Catalog.from_folder(tmp_path, label=None)
    stream = client.stream(videos, clip, 1, buckets=(8, 40))
    make_avi(tmp_path / "b.avi", frames=20, size=(16, 24))
    assert [info.lengths.tolist() for _, _, info in stream.batches(info=True)] == [[5], [8]]
    assert stream.changed == ["b.avi"]
