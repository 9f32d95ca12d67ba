"""Streams from real worker processes: the bytes and the order."""

from __future__ import annotations

import weakref
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.digests import digests
from tests.support.videos import Videos, make_avi, other_messages
from tests.support.waiting import SECOND, wait_until
from videoload import (
    Catalog,
    Client,
    ClipSpec,
    VideoloadError,
    decode_serially,
)

CLIP = ClipSpec(
    frames=8, stride=2, resize=56, size=(48, 48), crop="random", flip=True,
    sampling="random", clips_per_video=4,
)  # fmt: skip
SMALL = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)

BATCH = 5


@pytest.mark.slow
def test_a_complete_decode_happens_once_for_all_trainings(tmp_path: Path) -> None:
    root, cache = tmp_path / "videos", tmp_path / "kept"
    make_avi(root / "class" / "a.avi", frames=30, codec="snow")
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, SMALL, 1, epochs=2, info=True))
    changed = []
    for _ in range(2):
        with Client(workers=1, cache=cache) as client:
            stream = client.stream(catalog, SMALL, 1)
            assert digests(stream.batches(epochs=2, info=True)) == expected
        [file] = cache.glob("*.sqlite")
        changed.append(file.read_bytes())
    assert changed[0] == changed[1]  # the second training decoded nothing for its indexes


def test_info_names_the_videos_and_frames_of_the_batch(videos: Videos, client: Client) -> None:
    catalog = videos.catalog
    clip = ClipSpec(frames=6, stride=2, resize=56, size=(48, 48), sampling="random")
    # The same frames one by one: a catalog of segments of one frame, in a stream of their own.
    still = ClipSpec(frames=1, resize=56, size=(48, 48))
    stream = client.stream(catalog, clip, 3, shuffle=True, drop_remainder=False)
    assert len(stream) == -(-len(catalog) // 3)
    seen = Counter[int]()
    for clips, labels, info in stream.batches(info=True):
        assert info.video.shape == labels.shape
        assert info.frames.shape == (len(labels), clip.frames)
        assert clips.dtype == np.uint8
        assert labels.dtype == info.video.dtype == info.frames.dtype == np.int64
        for pixels, label, video, frames in zip(
            clips, labels, info.video, info.frames, strict=True
        ):
            seen[int(video)] += 1
            assert label == catalog[int(video)].label
            path = catalog[int(video)].path
            assert frames.max() < videos.frames[path]
            ordinals = sorted(set(frames.tolist()))
            segments = Catalog(
                [path] * len(ordinals), [0] * len(ordinals), ["any"], catalog.root,
                starts=ordinals, ends=[ordinal + 1 for ordinal in ordinals],
            )  # fmt: skip
            ((one_by_one, _),) = client.stream(segments, still, len(ordinals))
            for place, ordinal in enumerate(frames.tolist()):
                expected = one_by_one[ordinals.index(ordinal), 0]
                assert np.array_equal(pixels[place], expected), (path, ordinal)
    assert set(seen) == set(range(len(catalog)))


def test_a_digest_tells_the_batch_in_every_run_and_keeps_no_clips(
    videos: Videos, client: Client
) -> None:
    how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 3}
    stream = client.stream(videos.catalog, CLIP, **how)
    told = [info.digest for *_, info in stream.batches(epochs=2, info=True)]
    serial = decode_serially(videos.catalog, CLIP, **how, epochs=2, info=True)
    assert [info.digest for *_, info in serial] == told
    assert len(set(told)) == len(told), "no batch is like another"
    clips, _labels, info = next(stream.batches(start_step=1, info=True))
    assert info.digest == told[1]
    kept = weakref.ref(clips)
    del clips
    assert kept() is None
    with pytest.raises(VideoloadError, match="batch 1"):
        _ = info.digest


def test_each_loop_over_a_stream_is_the_next_epoch(videos: Videos, client: Client) -> None:
    stream = client.stream(videos.catalog, SMALL, BATCH, shuffle=True)
    whole = digests(stream.batches(epochs=3))
    for epoch in range(3):
        mine = whole[epoch * len(stream) : (epoch + 1) * len(stream)]
        assert digests(stream) == mine, f"epoch {epoch}"


def test_an_epoch_is_over_with_its_last_batch_even_if_nobody_asks_for_more(
    videos: Videos, client: Client
) -> None:
    """`zip` does not ask the second of two iterators for more, and neither does a loop
    that counts."""
    first, second, third = (
        client.stream(videos.catalog, SMALL, BATCH, shuffle=True, seed=3) for _ in range(3)
    )
    whole = digests(first.batches(epochs=3))
    for epoch in range(3):
        mine = whole[epoch * len(first) : (epoch + 1) * len(first)]
        assert digests(batch for _, batch in zip(first, second, strict=False)) == mine
        assert digests(islice(third, len(third))) == mine


def test_a_pass_that_was_left_early_is_followed_by_the_next_epoch(
    videos: Videos, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    stream = client.stream(videos.catalog, SMALL, BATCH, shuffle=True)
    size = len(stream)
    whole = digests(stream.batches(epochs=4))
    for taken in (1, 2):  # only a look
        assert digests(islice(stream, taken)) == whole[:taken]
    assert digests(islice(stream, 3)) == whole[:3]
    assert digests(islice(stream.batches(), 4)) == whole[size : size + 4]
    assert digests(stream.batches(start_step=2)) == whole[2:size], "by number: no pass"
    assert digests(batch[:2] for batch in stream.batches(info=True)) == whole[2 * size : 3 * size]
    assert digests(stream) == whole[3 * size :]
    assert other_messages(caplog.messages) == []


def test_after_a_pass_the_batches_of_the_next_one_are_made_ahead(
    videos: Videos, client: Client
) -> None:
    def decoded() -> int:
        wait_until(lambda: all(each.state == "idle" for each in client.workers), 30 * SECOND)
        return sum(worker.clips for worker in client.workers)

    for ordered in (True, False):
        before = decoded()
        stream = client.stream(videos.catalog, SMALL, BATCH, shuffle=True, ordered=ordered)
        size = len(stream)
        whole = digests(decode_serially(videos.catalog, SMALL, BATCH, shuffle=True, epochs=2))
        digests(stream.batches(epochs=2))
        own = 2 * size * BATCH
        assert decoded() - before == own
        assert sorted(digests(stream)) == sorted(whole[:size])
        ahead = decoded() - before - own - size * BATCH
        assert ahead > 0 if ordered else ahead == 0
        assert sorted(digests(stream)) == sorted(whole[size:])
        del stream


def test_a_shuffled_stream_that_is_read_again_by_number_warns_once(
    videos: Videos, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    stream = client.stream(videos.catalog, CLIP, 1, shuffle=True)
    assert len(stream) > 4

    def read(count: int) -> None:
        for _ in islice(stream.batches(epochs=1), count):
            pass

    read(2)
    read(3)
    assert caplog.messages == [], "the first time was only a look"
    read(3)
    read(3)
    [message] = caplog.messages
    assert "step 0" in message


def test_two_loops_over_one_stream_take_turns(videos: Videos, client: Client) -> None:
    stream = client.stream(videos.catalog, SMALL, 3, shuffle=True)
    whole = digests(stream.batches(epochs=1))
    pairs = list(zip(stream, stream.batches(epochs=1), strict=True))
    assert digests(first for first, _ in pairs) == whole
    assert digests(second for _, second in pairs) == whole
    # One runs ahead of the other, and one is left half-way for good.
    slow, fast, left = (stream.batches(epochs=1) for _ in range(3))
    next(left)
    assert digests([next(slow)]) == whole[:1]
    assert digests(fast) == whole
    assert digests(slow) == whole[1:]


# Real files


def test_a_loop_continues_where_its_state_says(videos: Videos, client: Client) -> None:
    stream = client.stream(videos.catalog, SMALL, 2, shuffle=True, seed=3)
    assert stream.state_dict()["step"] == 0
    whole = digests(stream.batches(epochs=2))
    epoch = len(stream)
    for at, _ in enumerate(stream):
        if at == 1:
            break
    state = stream.state_dict()
    assert state["step"] == 2
    again = client.stream(videos.catalog, SMALL, 2, shuffle=True, seed=3)
    again.load_state_dict(state)
    assert digests(again) == whole[2:epoch]
    assert again.state_dict()["step"] == epoch
    assert digests(again) == whole[epoch:]
    with pytest.raises(VideoloadError, match="another stream"):
        client.stream(videos.catalog, SMALL, 2, seed=3).load_state_dict(state)
    first, second = (
        client.stream(videos.catalog, SMALL, 2, shuffle=True, seed=3, shard=(rank, 2))
        for rank in range(2)
    )
    with pytest.raises(VideoloadError, match="1 ranks become 2 only where"):
        second.load_state_dict(state)
    halves = [
        client.stream(videos.catalog, SMALL, 1, shuffle=True, seed=3, shard=(rank, 2))
        for rank in range(2)
    ]
    for half in halves:
        half.load_state_dict(state)
        assert half.state_dict()["step"] == 2
    for (*_, one), (*_, other), (*_, both) in zip(
        *(half.batches(2, info=True) for half in halves), again.batches(2, info=True), strict=True
    ):
        assert sorted([*one.video, *other.video]) == sorted(both.video)
    own = digests(second.batches(epochs=1))
    list(islice(first, 2))
    second.load_state_dict(first.state_dict())  # as everybody's loop over ranks does
    assert digests(second) == own[2:]
