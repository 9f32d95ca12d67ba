"""Broken files of every codec: each gives a right clip or a named failure, and the same one in
every process."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.digests import digests
from tests.support.mutants import mutant
from tests.support.routes import every_kind, make_sources, read_sources
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
    make_sources(folder, every_kind())
    return read_sources(folder)


def make_mutants(folder: Path, sources: list[tuple[str, bytes]], first: int) -> Catalog:
    (folder / "mutants" / "all").mkdir(parents=True)
    for seed in range(first, first + MUTANTS):
        name, data = sources[seed % len(sources)]
        broken = folder / "mutants" / "all" / f"{seed:05d}_{name}.avi"
        broken.write_bytes(mutant(data, seed))
    return Catalog.from_folder(folder / "mutants")


@pytest.mark.slow
@pytest.mark.parametrize("workers", rest_nightly([2, 1, 3]))
def test_a_mutant_is_a_right_clip_or_a_named_failure(
    workers: int, sources: list[tuple[str, bytes]], tmp_path: Path
) -> None:
    catalog = make_mutants(tmp_path, sources, workers * MUTANTS)
    how: dict[str, Any] = {"shuffle": True, "seed": workers, "max_bad": 1.0}
    # By the second epoch all files were read before, in another order.
    with Client(workers=workers, stall_s=STALL_S) as client:
        stream = client.stream(catalog, CLIP, 8, **how)
        streamed = digests(stream.batches(epochs=EPOCHS, info=True))
        bad = stream.quarantine
    assert streamed == digests(decode_serially(catalog, CLIP, 8, epochs=EPOCHS, info=True, **how))
    assert all(video.reason for video in bad)
    print(f"{workers} workers, {len(catalog)} mutants, {len(bad)} failed by name")
    assert len(catalog) / 20 < len(bad) < len(catalog) / 2, "a fuzzer breaks some, and not all"
