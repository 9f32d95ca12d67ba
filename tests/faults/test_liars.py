"""Workers that lie in every field of every message change no byte of a stream."""

import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.faults.liars import FIELDS, Liar, lie
from tests.support.digests import digests
from tests.support.processes import resident_mb
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.storage.roots import open_storage
from videoload.wire.messages import FromWorker

CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
BATCH = 4
LIARS = 3


def test_liars_know_every_field_of_every_message() -> None:
    said = {
        str(kind.__struct_config__.tag): msgspec.structs.fields(kind)
        for kind in get_args(FromWorker)
    }
    assert {kind: tuple(f.name for f in fields) for kind, fields in said.items()} == FIELDS


@pytest.mark.slow
def test_lying_workers_change_no_batch_and_memory_stays_constant(
    videos: Videos, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True}
    expected = digests(decode_serially(videos.catalog, CLIP, **how, epochs=2, info=True))
    told: Counter[str] = Counter()
    with Client(
        workers=1, listen="tcp://127.0.0.1:*", frame_store=tmp_path, frame_store_gb=1e-3
    ) as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        list(client.stream(videos.catalog, CLIP, **how))
        before_mb = resident_mb()
        with ExitStack() as stack:
            for seed in range(LIARS):
                stack.enter_context(in_background(partial(lie, client.endpoints[0], seed, told)))
            while told.total() < either(60, 1000):
                stream = client.stream(videos.catalog, CLIP, **how)
                assert digests(stream.batches(epochs=2, info=True)) == expected
                assert stream.quarantine == []
        grown_mb = resident_mb() - before_mb
        wait_until(lambda: len(client.workers) == 1, 30 * SECOND, "the honest one is still there")
    assert any(tmp_path.glob("*/*/[0-9a-f]*")), "it kept frames, as far as there was room"
    assert grown_mb < 32


def test_what_a_liar_counts_decides_nothing_where_the_trainer_has_the_files(videos: Videos) -> None:
    dense, own = replace(CLIP, sampling="dense", clips_per_video=1), open_storage(videos.root)
    expected = sum(1 for _ in decode_serially(videos.catalog, dense, BATCH))
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Liar(client.endpoints[0], "counts") as liar,
    ):

        def count(over: threading.Event) -> None:
            while not over.is_set():
                liar.hear(50)
                for lease in list(liar.leases.values()):
                    files = [
                        own.fingerprint(each.row.path, lease.salt or 0) for each in lease.clips
                    ]
                    found = {"windows": 10**6, "left": 0, "size": [8, 8], "displayed": [[8, 8]]}
                    liar.say("result", found=[{"type": "windows", **found}] * len(files),
                             files=files)  # fmt: skip

        client.wait_for_workers(1, timeout_s=30 * SECOND)
        with in_background(count):
            assert len(client.stream(videos.catalog, dense, BATCH)) == expected
