"""Streams from real worker processes: the bytes and the order."""

import os
import shutil
import threading
import weakref
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.digests import digests
from tests.support.videos import Videos, other_messages
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, SpecError, VideoloadError, decode_serially

CLIP = ClipSpec(
    frames=8, stride=2, resize=56, size=(48, 48), crop="random", flip=True,
    sampling="random", clips_per_video=4,
)  # fmt: skip
SMALL = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)

BATCH = 5


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


def test_a_pass_that_was_left_early_is_followed_by_the_next_epoch(
    videos: Videos, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    stream = client.stream(videos.catalog, SMALL, BATCH, shuffle=True)
    size = len(stream)
    whole = digests(stream.batches(epochs=6))
    for taken in (1, 2):  # only a look
        assert digests(islice(stream, taken)) == whole[:taken]
    assert digests(islice(stream, 3)) == whole[:3]
    assert digests(islice(stream.batches(), 4)) == whole[size : size + 4]
    assert digests(stream.batches(start_step=2)) == whole[2:size], "by number: no pass"
    assert digests(batch[:2] for batch in stream.batches(info=True)) == whole[2 * size : 3 * size]
    assert digests(stream) == whole[3 * size : 4 * size]
    # `zip` does not ask the second of two iterators for more, and neither does a loop that counts.
    paired = (batch for _, batch in zip(range(size), stream, strict=False))
    assert digests(paired) == whole[4 * size : 5 * size]
    assert digests(islice(stream, size)) == whole[5 * size :]
    assert other_messages(caplog.messages) == []


def test_after_a_pass_the_batches_of_the_next_one_are_made_ahead(
    videos: Videos, client: Client
) -> None:
    for ordered in (True, False):
        before = decoded(client)
        stream = client.stream(videos.catalog, SMALL, BATCH, shuffle=True, ordered=ordered)
        size = len(stream)
        whole = digests(decode_serially(videos.catalog, SMALL, BATCH, shuffle=True, epochs=2))
        digests(stream.batches(epochs=2))
        own = 2 * size * BATCH
        assert decoded(client) - before == own
        assert sorted(digests(stream)) == sorted(whole[:size])
        ahead = decoded(client) - before - own - size * BATCH
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
    both = zip(stream, stream.batches(epochs=1), strict=True)
    assert [digests(pair) for pair in both] == [[expected] * 2 for expected in whole]
    # One runs ahead of the other, and one is left half-way for good.
    slow, fast, left = (stream.batches(epochs=1) for _ in range(3))
    next(left)
    assert digests([next(slow)]) == whole[:1]
    assert digests(fast) == whole
    assert digests(slow) == whole[1:]


def test_a_stream_that_is_read_slowly_or_not_at_all_delays_no_other(
    videos: Videos, client: Client
) -> None:
    """And nothing is decoded in vain."""
    how: dict[str, Any] = {"batch_size": 4, "shuffle": True}
    spec, slots = replace(SMALL, clips_per_video=12), 4
    serial = [
        digests(decode_serially(videos.catalog, spec, **how, seed=seed, info=True))
        for seed in range(3)
    ]
    before = decoded(client)
    unread, slow, quick = (
        client.stream(videos.catalog, spec, **how, seed=seed, slots=slots).batches(0, info=True)
        for seed in range(3)
    )
    kept, sipped = digests([next(unread)]), digests([next(slow)])
    full = before + 4 * 2 * (1 + slots)  # each was read once, and that slot is free again
    wait_until(lambda: decoded(client) == full, 30 * SECOND, "they fill their slots")
    got: list[str] = []
    for batch in quick:
        got += digests([batch])
        if len(got) % 6 == 0:
            sipped += digests([next(slow)])
    assert got == serial[2]
    expected = full + 4 * (len(got) + len(sipped) - 1)
    wait_until(lambda: decoded(client) == expected, 30 * SECOND, "and no more than that")
    assert sipped + digests(slow) == serial[1]
    assert kept + digests(unread) == serial[0]


def decoded(client: Client) -> int:
    """The clips, once nobody decodes any more."""
    wait_until(lambda: all(each.state == "idle" for each in client.workers), 30 * SECOND)
    return sum(worker.clips for worker in client.workers)


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
    other = client.stream(videos.catalog, SMALL, 2, seed=3)
    with pytest.raises(VideoloadError, match="shuffle: True before, False now"):
        other.load_state_dict(state)
    first, second = (
        client.stream(videos.catalog, SMALL, 2, shuffle=True, seed=3, shard=(rank, 2))
        for rank in range(2)
    )
    with pytest.raises(VideoloadError, match=r"1\D+2"):
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
    with pytest.raises(SpecError, match="step"):
        second.load_state_dict({k: v for k, v in first.state_dict().items() if k != "step"})
    second.load_state_dict(first.state_dict())  # as everybody's loop over ranks does
    assert digests(second) == own[2:]


def test_without_an_order_a_state_is_taken_between_epochs_and_refused_in_the_middle(
    videos: Videos, client: Client
) -> None:
    stream = client.stream(videos.catalog, SMALL, 2, ordered=False)
    size = len(stream)
    before = stream.state_dict()
    for taken, _ in enumerate(stream, 1):
        state = stream.state_dict()
        assert state["step"] == taken, "however the steps came"
        if taken < size:
            with pytest.raises(SpecError, match="ordered=True"):
                stream.load_state_dict(state)
    stream.load_state_dict(before)
    assert stream.state_dict() == before
    stream.load_state_dict(state)
    assert {info.step for *_, info in stream.batches(info=True)} == {*range(size, 2 * size)}


def test_a_root_that_is_not_spelled_in_utf_8_is_read(
    videos: Videos, client: Client, tmp_path: Path
) -> None:
    root = tmp_path / os.fsdecode(b"vid\xe9os")
    shutil.copytree(videos.root / "jump", root / "jump")
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, SMALL, BATCH))
    assert digests(client.stream(catalog, SMALL, BATCH)) == expected


def test_the_io_thread_waits_for_no_file_system(
    videos: Videos, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root may lie on a mount that does not respond, and other streams need that thread."""
    stat, threads = os.stat, set[threading.Thread]()

    def noted(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path) == str(videos.root):
            threads.add(threading.current_thread())
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", noted)
    next(iter(client.stream(videos.catalog, SMALL, BATCH)))
    assert threads == {threading.current_thread()}
