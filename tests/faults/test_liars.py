"""Workers that lie in every field of every message change no byte of a stream."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.faults.liars import FIELDS, PIXELS, VALUES, Liar
from tests.support.digests import digests
from tests.support.processes import resident_mb
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND, in_background
from videoload import Client, ClipSpec, decode_serially
from videoload.storage.roots import open_storage
from videoload.transport.messages import FromWorker

pytestmark = pytest.mark.timeout(180 * SECOND)

CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
BATCH = 4
LIARS = 3


def test_liars_know_every_field_of_every_message() -> None:
    said = {
        str(kind.__struct_config__.tag): msgspec.structs.fields(kind)
        for kind in get_args(FromWorker)
    }
    assert {kind: tuple(f.name for f in fields) for kind, fields in said.items()} == FIELDS


# a kind of message, its pixels, and replacements for its fields
Lie = tuple[str, str, dict[str, Any]]


def lies(kinds: list[str], *spared: str) -> st.SearchStrategy[Lie]:
    """A lie of one of these kinds; the fields ``spared`` stay true."""

    def of(kind: str) -> st.SearchStrategy[Lie]:
        fields = [field for field in FIELDS[kind] if field not in spared] or ["surplus"]
        replaced = st.dictionaries(st.sampled_from(fields), st.sampled_from(VALUES), max_size=2)
        return st.tuples(st.just(kind), st.sampled_from(PIXELS), replaced)

    return st.sampled_from(kinds).flatmap(of)


class Lies(RuleBasedStateMachine):
    """A reader, an honest worker, and up to three liars."""

    client: ClassVar[Client]
    videos: ClassVar[Videos]
    expected: ClassVar[list[str]]
    told: ClassVar[int] = 0  # lies
    owed: ClassVar[int] = 0  # of them, about a lease that the liar had

    def __init__(self) -> None:
        super().__init__()
        self.stream = self.client.stream(self.videos.catalog, CLIP, BATCH, shuffle=True)
        self.batches = self.stream.batches(epochs=2, info=True)
        self.got: list[str] = []
        self.liars: dict[int, Liar] = {}
        self.comings = 0

    @rule(which=st.integers(0, LIARS - 1))
    def joins(self, which: int) -> None:
        """A liar dials in, in the place of another one if there is one."""
        self.leaves(which)
        self.comings += 1
        self.liars[which] = Liar(self.client.endpoints[0], f"{id(self)}-{self.comings}")

    @rule(which=st.integers(0, LIARS - 1), lie=lies(["result", "failed", *FIELDS]))
    def says(self, which: int, lie: Lie) -> None:
        """One of the liars sends something."""
        if which not in self.liars:
            self.joins(which)
        kind, pixels, replaced = lie
        liar = self.liars[which]
        liar.hear(30)
        type(self).told += 1
        type(self).owed += bool(liar.leases)
        liar.say(kind, pixels, **replaced)

    @rule(which=st.integers(0, LIARS - 1))
    def leaves(self, which: int) -> None:
        """One of the liars hangs up, whatever it owes."""
        if which in self.liars:
            self.liars.pop(which).close()

    @rule(count=st.integers(1, 3), lie=lies(["result", "failed"], "lease"))
    def reads(self, count: int, lie: Lie) -> None:
        """The next batches are right, while each liar answers each lease with this lie."""
        with self.answering(*lie):
            for _ in range(min(count, len(self.expected) - len(self.got))):
                self.got += digests([next(self.batches)])
                assert self.got[-1] == self.expected[len(self.got) - 1]

    def answering(
        self, kind: str, pixels: str, replaced: dict[str, Any]
    ) -> AbstractContextManager[None]:
        """A liar that says nothing at all is tested in `tests.faults.test_garbage`."""

        def answer(over: threading.Event) -> None:
            while not over.wait(0.01):
                for liar in self.liars.values():
                    liar.hear()
                    while liar.leases:
                        liar.say(kind, pixels, **replaced)
                        type(self).owed += 1

        return in_background(answer)

    @invariant()
    def the_io_thread_lives(self) -> None:
        """And no file is blamed."""
        assert not self.client._engine.stopped
        assert self.stream.quarantine == []

    def teardown(self) -> None:
        """The remaining batches come too, once all liars have left."""
        try:
            for which in list(self.liars):
                self.leaves(which)
            self.got += digests(self.batches)
            assert self.got == self.expected
            assert self.stream.quarantine == []
        finally:
            for liar in self.liars.values():
                liar.close()


@pytest.mark.slow
def test_lying_workers_change_no_batch_and_memory_stays_constant(
    videos: Videos, tmp_path: Path
) -> None:
    Lies.videos = videos
    Lies.told = Lies.owed = 0
    Lies.expected = digests(
        decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=2, info=True)
    )
    with Client(
        workers=1, listen="tcp://127.0.0.1:*", frame_store=tmp_path, frame_store_gb=1e-3
    ) as Lies.client:
        Lies.client.wait_for_workers(1, timeout_s=20 * SECOND)
        list(Lies.client.stream(videos.catalog, CLIP, BATCH))
        before_mb = resident_mb()
        run_state_machine_as_test(
            Lies,
            settings=settings(
                max_examples=either(10, 50),
                stateful_step_count=30,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
        grown_mb = resident_mb() - before_mb
        assert Lies.client.workers, "the honest one is still there"
    assert any(tmp_path.glob("*/*/*")), "it kept frames, as far as there was room"
    assert Lies.told > either(15, 100)
    assert Lies.owed > either(0, 50)
    assert grown_mb < 32


def test_what_a_liar_counts_decides_nothing_where_the_trainer_has_the_files(videos: Videos) -> None:
    dense, own = replace(CLIP, sampling="dense", clips_per_video=1), open_storage(videos.root)
    expected = sum(1 for _ in decode_serially(videos.catalog, dense, BATCH))
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Liar(client.endpoints[0], "counts") as liar,
    ):

        def lie(over: threading.Event) -> None:
            while not over.is_set():
                liar.hear(50)
                for lease in list(liar.leases.values()):
                    files = [
                        own.fingerprint(each.row.path, lease.salt or 0) for each in lease.clips
                    ]
                    liar.say("result", frames=[[]] * len(files), files=files)

        client.wait_for_workers(1, timeout_s=20 * SECOND)
        with in_background(lie):
            assert len(client.stream(videos.catalog, dense, BATCH)) == expected
