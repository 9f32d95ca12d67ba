"""Broken files of every codec: each gives a right clip or a named failure, and the same one in
every process."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.mutants import mutant
from tests.support.routes import make_sources, read_sources
from tests.support.tables import tell
from tests.support.thorough import either, rest_nightly
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially

MUTANTS = either(150, 740)  # different mutants for each number of workers
EPOCHS = 2
STALL_S = 30.0 * SECOND  # on a busy machine, too
CLIP = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32), sampling="random")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """A small file of every kind, by name."""
    folder = tmp_path_factory.mktemp("good")
    make_sources(folder)
    return read_sources(folder)


def make_mutants(folder: Path, sources: list[tuple[str, bytes]], first: int) -> Catalog:
    (folder / "mutants" / "all").mkdir(parents=True)
    for seed in range(first, first + MUTANTS):
        name, data = sources[seed % len(sources)]
        broken = folder / "mutants" / "all" / f"{seed:05d}_{name}.avi"
        broken.write_bytes(mutant(data, seed))
    return Catalog.from_folder(folder / "mutants")


def clips_of(batches: Any) -> dict[tuple[int, int], str]:
    """The digest of each clip, with its video, by its place in the stream."""
    digests = {}
    for clips, _, info in batches:
        for row, clip in enumerate(clips):
            what = hashlib.md5(clip.tobytes() + info.frames[row].tobytes())
            what.update(int(info.video[row]).to_bytes(8, "little"))
            digests[info.step, row] = what.hexdigest()
    return digests


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("workers", rest_nightly([2, 1, 3]))
def test_a_mutant_is_a_right_clip_or_a_named_failure(
    workers: int,
    sources: list[tuple[str, bytes]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    pytestconfig: pytest.Config,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="videoload.plan.quarantine")
    catalog = make_mutants(tmp_path, sources, workers * MUTANTS)
    options: dict[str, Any] = {
        "batch_size": 8, "shuffle": True, "seed": workers, "max_bad": 1.0, "drop_remainder": False,
    }  # fmt: skip
    # By the second epoch all files were read before, in another order.
    with Client(workers=workers, stall_s=STALL_S) as client:
        stream = client.stream(catalog, CLIP, **options)
        streamed = clips_of(stream.batches(epochs=EPOCHS, info=True))
        bad = stream.quarantine
    ended = [record for record in caplog.records if "ended" in record.message]
    serial = clips_of(decode_serially(catalog, CLIP, epochs=EPOCHS, info=True, **options))
    differing = [place for place, digest in serial.items() if streamed[place] != digest]
    tell(
        pytestconfig,
        f"{workers} workers, {len(catalog)} mutants: {len(catalog) - len(bad)} gave clips, "
        f"{len(bad)} failed by name, {len(ended)} decoders crashed or hung, {len(differing)} clips "
        "differ from the serial decode's",
    )
    assert len(streamed) == len(serial) == EPOCHS * len(catalog)
    assert all(video.reason for video in bad)
    assert len(bad) < len(catalog) / 2, "a fuzzer that breaks everything tests nothing"
    assert len(bad) > len(catalog) / 20, "a fuzzer that breaks nothing tests nothing"
    assert not differing
