"""What the lease table's choices cost in time: workers of known speed, and a clock that is only
counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count, pairwise

import numpy as np
import pytest

from videoload.catalog.catalog import Catalog
from videoload.leases.commands import Command, Grant, Ready
from videoload.leases.table import LeaseTable
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine

_BEAT_S = 0.25
_VIDEOS = 800
_CLIP_BYTES = 2_400_000


@dataclass(eq=False)
class Hand:
    """A worker: a clip takes it ``clip_s(now)``; it works on one lease while others wait."""

    name: str
    local: bool
    clip_s: Callable[[float], float]
    leases: list[Grant] = field(default_factory=list)
    begun: float = 0.0
    frames: int = 0
    clips: int = 0
    trip_s: float = 0.0  # what a lease takes more than its clips
    cut_until: float = 0.0  # nothing of it comes
    away_s: float = 0.0  # what its messages take there and back
    sending: int = 0  # answers of it that wait for the line


class Shop:
    """A table, its workers, and consumers that take each batch as soon as it is there. All workers
    that are not local share a line, of so many clips a second."""

    def __init__(
        self, *, ordered: bool = True, batch: int = 8, slots: int = 8, line: float = math.inf
    ) -> None:
        self.table = LeaseTable(credit=2, stall_s=10.0, silence_s=2.0)
        self.now = 0.0
        self.hands: dict[str, Hand] = {}
        self.taken: list[tuple[float, int]] = []  # when, and of which reader
        self._ordered, self._batch, self._slots = ordered, batch, slots
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.quarantines: dict[int, Quarantine] = {}
        self.deadly = -1  # a video that kills who decodes it
        self.line = line
        self._line_free = 0.0
        self.granted = 0
        self.after(_BEAT_S, self._tick)

    def hire(
        self,
        name: str,
        clip_s: float | Callable[[float], float],
        *,
        local: bool,
        away_s: float = 0.0,
    ) -> None:
        """A worker joins."""
        takes = clip_s if callable(clip_s) else lambda now: clip_s
        self.hands[name] = Hand(name, local, takes, away_s=away_s)
        self._obey(self.table.worker_joined(name, local=local, now=self.now))

        def greet() -> None:
            self.table.heard(name, self.now, 0)

        self.after(away_s, greet)

    def read(self, reader: int = 0) -> None:
        """A consumer begins to read a stream of its own."""
        options = StreamOptions(
            self._batch, False, 0, (0, 1), False, self._ordered, "substitute", 0.01
        )
        plan = Plan(_VIDEOS, 1, options)
        catalog = Catalog([f"{i}.avi" for i in range(_VIDEOS)], [0] * _VIDEOS, ["class"])
        self.quarantines[reader] = Quarantine(catalog, plan, options)
        self.table.add_stream(
            reader, plan, self.quarantines[reader],
            clip_frames=2, slots=self._slots, ordered=self._ordered, clip_bytes=_CLIP_BYTES,
        )  # fmt: skip
        self._obey(self.table.start_reader(reader, reader, 0, 10_000))

    def run(self, seconds: float) -> float:
        """Time passes; returns clips per second of the second half of it."""
        begun = self.now
        while self._due and self._due[0][0] <= begun + seconds:
            self.now, _, happens = heappop(self._due)
            self.table.clock(self.now)
            happens()
        self.now = begun + seconds
        late = sum(when > begun + seconds / 2 for when, _ in self.taken)
        return late * self._batch / (seconds / 2)

    def fire(self, name: str, *, returns: bool = False) -> None:
        """A worker dies, and another one may take its place."""
        hand = self.hands.pop(name)
        self._obey(self.table.worker_left(name, died=True))
        if returns:
            self.after(0.05, lambda: self.hire(f"{name}'", hand.clip_s, local=hand.local))

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, next(self._numbers), happens))

    def _tick(self) -> None:
        for hand in self.hands.values():
            hand.frames += bool(hand.leases)
            if self.now < hand.cut_until:
                continue
            if hand.sending:
                self.table.sends(hand.name, self.now)
            else:
                self.table.heard(hand.name, self.now, hand.frames)
        self._obey(self.table.tick(self.now))
        self.after(_BEAT_S, self._tick)

    def _begin(self, hand: Hand) -> None:
        clips = len(hand.leases[0].samples)
        hand.begun = self.now
        self.after(clips * hand.clip_s(self.now) + hand.trip_s, lambda: self._answer(hand))

    def _answer(self, hand: Hand) -> None:
        if self.hands.get(hand.name) is not hand:
            return
        if any(sample.video == self.deadly for sample in hand.leases[0].samples):
            self.fire(hand.name, returns=True)
            return
        lease = hand.leases.pop(0)
        hand.clips += len(lease.samples)
        hand.frames += len(lease.samples)
        decode_s = self.now - hand.begun
        if hand.leases:
            self._begin(hand)
        comes_s = hand.away_s / 2
        if not hand.local:
            self._line_free = max(self.now, self._line_free) + len(lease.samples) / self.line
            comes_s += self._line_free - self.now
        comes_s = max(comes_s, hand.cut_until - self.now)
        hand.sending += 1
        if comes_s:
            self.after(comes_s, lambda: self._take(hand, lease, decode_s))
        else:
            self._take(hand, lease, decode_s)

    def _take(self, hand: Hand, lease: Grant, decode_s: float) -> None:
        hand.sending -= 1
        self.table.heard(hand.name, self.now)
        frames = np.zeros((len(lease.samples), 2), np.int64)
        self._obey(self.table.result(hand.name, lease.lease, frames, decode_s))

    def _bring(self, hand: Hand, lease: Grant) -> None:
        hand.leases.append(lease)
        if len(hand.leases) == 1:
            self._begin(hand)

    def _obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Grant):
                hand = self.hands.get(str(command.worker))
                if hand is None:  # it left while the commands were obeyed
                    continue
                self.granted += len(command.samples)
                comes_s = max(hand.away_s / 2, hand.cut_until - self.now)
                if comes_s:
                    self.after(comes_s, partial(self._bring, hand, command))
                else:
                    self._bring(hand, command)
            elif isinstance(command, Ready):
                self.taken.append((self.now, command.reader))
                self._obey(self.table.slot_back(command.reader, command.slot))
                self._obey(self.table.wanted(command.reader))


# One that is slow


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("slower", [2, 10, 100])
def test_a_slow_worker_makes_no_stream_slower_than_it_is_without(
    slower: int, local: bool, ordered: bool
) -> None:
    alone, both = Shop(ordered=ordered), Shop(ordered=ordered)
    for shop in (alone, both):
        shop.hire("good", 1 / 222, local=local)
    both.hire("slow", slower / 222, local=local)
    rates = []
    for shop in (alone, both):
        shop.read()
        rates.append(shop.run(40.0))
    assert rates[0] == pytest.approx(222, rel=0.02)
    assert rates[1] > 0.98 * rates[0], f"{rates[1]:.0f} with it, {rates[0]:.0f} without"
    if slower == 10:
        assert both.hands["slow"].clips > 40 * 22.2 / 2, "and it does its part"


def test_a_remote_worker_that_gets_stuck_in_its_disk_and_beats_holds_nobody_up() -> None:
    # A thousand times slower from the first minute on; of a local one, only its end would tell.
    shop = Shop()
    shop.hire("good", 1 / 222, local=True)
    shop.hire("stuck", lambda now: (1 if now < 20 else 1000) / 222, local=False)
    shop.read()
    assert shop.run(20.0) > 1.9 * 222
    assert shop.run(60.0) > 0.98 * 222
    waits = [after - before for (before, _), (after, _) in pairwise(shop.taken)]
    assert max(waits) < 1.0


def test_a_worker_that_was_slow_for_a_while_is_given_its_full_share_again() -> None:
    shop = Shop()
    shop.hire("good", 1 / 222, local=True)
    shop.hire("late", lambda now: (30 if now < 20 else 1) / 222, local=True)
    shop.read()
    assert shop.run(20.0) > 0.95 * 222
    assert shop.run(40.0) > 1.9 * 222


def test_light_clips_do_not_make_a_worker_slow_that_is_only_far_away() -> None:
    # What a message takes is more than what a clip takes, for as long as a lease is one clip.
    shop = Shop(batch=32)
    shop.hire("near", 0.0005, local=True)
    shop.hire("far", 0.0005, local=False)
    shop.hands["far"].trip_s = 0.003
    shop.read()
    shop.run(10.0)
    assert shop.hands["far"].clips > shop.hands["near"].clips / 2


# Far away, and a line that is full


@pytest.mark.parametrize("clip_s", [0.002, 0.05, 0.4])
@pytest.mark.parametrize("away_s", [0.001, 0.02, 0.05, 0.1, 0.25])
def test_a_round_trip_costs_no_throughput(away_s: float, clip_s: float) -> None:
    shop = Shop(batch=16, slots=64)
    for i in range(4):
        shop.hire(f"w{i}", clip_s, local=False, away_s=away_s)
    shop.read()
    assert shop.run(20.0 + 400 * clip_s) > 0.97 * 4 / clip_s


def test_workers_far_away_and_near_all_have_their_share() -> None:
    shop = Shop(batch=16, slots=32)
    shop.hire("local", 0.05, local=True)
    for name, away_s in (("near", 0.001), ("far", 0.05), ("overseas", 0.2)):
        shop.hire(name, 0.05, local=False, away_s=away_s)
    shop.read()
    assert shop.run(40.0) > 0.97 * 4 / 0.05
    clips = {name: hand.clips for name, hand in shop.hands.items()}
    assert min(clips.values()) > 0.9 * max(clips.values()), clips


@pytest.mark.parametrize("workers", [1, 8, 64, 256])
def test_a_full_line_is_full_whatever_the_number_of_workers(workers: int) -> None:
    shop = Shop(batch=32, slots=8 + 4 * workers // 32, line=49.0)
    for i in range(workers):
        shop.hire(f"w{i}", 0.05, local=False, away_s=0.001)
    shop.read()
    assert shop.run(60.0) > 0.97 * min(49.0, workers / 0.05)
    done = len(shop.taken) * 32
    assert shop.granted - done < 49.0 * 3 + 32, "what is out, the line brings in time"
    assert shop.table.line_is_full is (workers > 8)


def test_a_line_that_gets_wider_is_filled_again() -> None:
    shop = Shop(batch=32, slots=40, line=49.0)
    for i in range(64):
        shop.hire(f"w{i}", 0.05, local=False, away_s=0.001)
    shop.read()
    shop.run(30.0)
    shop.line = 1000.0
    assert shop.run(10.0) > 0.97 * 1000
    assert not shop.table.line_is_full


def test_half_of_the_workers_cut_off_and_back_have_their_share_again_within_two_seconds() -> None:
    shop = Shop(batch=8, slots=40)
    for i in range(32):
        shop.hire(f"w{i}", 0.05, local=False, away_s=0.02)
    shop.read()
    assert shop.run(10.0) > 0.97 * 32 / 0.05
    for i in range(16):
        shop.hands[f"w{i}"].cut_until = shop.now + 30.0
    shop.run(5.0)
    assert shop.run(25.0) > 0.97 * 16 / 0.05
    shop.run(1.0)
    assert shop.run(2.0) > 0.97 * 32 / 0.05, "of the second second"


@pytest.mark.parametrize("away_s", [0.6, 1.0, 1.5, 3.0])
def test_who_is_cut_off_for_a_moment_is_not_taken_for_slow(away_s: float) -> None:
    """A hundred times what its lease takes, and with few slots, it would hold them all up."""
    shop = Shop(batch=4, slots=4)
    for name in ("here", "there"):
        shop.hire(name, 0.005, local=False, away_s=0.001)
    shop.read()
    shop.run(1.0)
    shop.hands["there"].cut_until = shop.now + away_s
    shop.run(away_s + 0.5)
    before = shop.hands["there"].clips
    shop.run(1.0)
    assert shop.hands["there"].clips - before > 0.4 / 0.005


def test_what_is_in_memory_next_door_does_not_wait_for_the_line() -> None:
    shop = Shop(batch=8, slots=16, line=5.0)
    shop.hire("local", 0.05, local=True)
    for i in range(8):
        shop.hire(f"w{i}", 0.05, local=False)
    shop.read()
    assert shop.run(60.0) > 0.8 * 25


# Streams that wait


@pytest.mark.parametrize("readers", [12, 40])
def test_streams_that_all_wait_get_equal_shares(readers: int) -> None:
    shop = Shop(batch=4)
    shop.hire("a", 0.01, local=True)
    shop.hire("b", 0.01, local=True)
    for reader in range(readers):
        shop.read(reader)
    shop.run(45.0)
    batches = Counter(reader for _, reader in shop.taken)
    share = len(shop.taken) / readers
    assert min(batches[reader] for reader in range(readers)) > 0.9 * share
    assert max(batches.values()) < 1.1 * share


# Workers that die by themselves


def test_workers_that_die_and_return_in_a_loop_condemn_no_video() -> None:
    shop = Shop(batch=16, slots=24)
    for i in range(64):
        shop.hire(f"good{i}", 0.1, local=False)
    numbers = count()

    def join_and_die() -> None:
        name = f"dying{next(numbers)}"
        shop.hire(name, 0.1, local=False)
        shop.after(0.1, lambda: shop.fire(name))
        shop.after(0.15, join_and_die)

    for _ in range(64):
        join_and_die()
    shop.read()
    assert shop.run(5.0) > 0.9 * 64 / 0.1
    assert not shop.quarantines[0].videos


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_a_video_that_kills_is_found_though_its_workers_come_back_at_once(workers: int) -> None:
    shop = Shop(batch=4)
    shop.deadly = 5
    for i in range(workers):
        shop.hire(f"w{i}", 0.03, local=False)
    shop.read()
    assert shop.run(60.0) > 0
    assert [video.path for video in shop.quarantines[0].videos] == ["5.avi"]
