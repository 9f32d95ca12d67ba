"""A tenth of a catalog is damaged, in all the ways in which files get damaged. The stream is the
same serially, from local workers, and from workers that dial in."""

from __future__ import annotations

import random
from typing import Any, Literal

import av
import pytest

from tests.support.codecs import KINDS, make
from tests.support.digests import digest, digests
from tests.support.mutants import mutant
from tests.support.programs import Programs
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially

GOOD = ("mpeg4_xvid", "mpeg4_bframes", "h264_bframes", "mjpeg", "msmpeg4v3", "mpeg4_odd_size")
CLIP = ClipSpec(
    frames=6, stride=2, resize=48, size=(40, 40), crop="random", flip=True, sampling="random"
)
HOW: dict[str, Any] = {
    "batch_size": 5, "shuffle": True, "seed": 4, "drop_remainder": False, "max_bad": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """54 good files and 6 damaged ones."""
    folder = tmp_path_factory.mktemp("damaged")
    sources = [make(kind, folder).read_bytes() for kind in KINDS if kind.name in GOOD]
    (folder / "videos/all").mkdir(parents=True)
    draw = random.Random(1)
    for number in range(60):
        data = sources[number % len(sources)]
        if number % 10 == 3:
            data = mutant(data, draw.getrandbits(32))
        if number in (13, 43):
            data = data[: draw.randrange(len(data))] if number == 13 else b"no video at all"
        (folder / f"videos/all/{number:02d}.avi").write_bytes(data)
    return Catalog.from_folder(folder / "videos")


@pytest.mark.slow
@pytest.mark.timeout(120 * SECOND)
def test_with_a_tenth_of_the_files_damaged_every_way_gives_the_same_bytes(
    damaged: Catalog, client: Client, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.leases.blame._COMING_S", 0.5 * SECOND)
    serial = digest(decode_serially(damaged, CLIP, epochs=2, info=True, **HOW))
    assert damaged.root is not None
    local = client.stream(damaged, CLIP, **HOW)
    assert digest(local.batches(epochs=2, info=True)) == serial
    assert 0 < len(local.quarantine) <= 6
    with Client(workers=0, listen="tcp://127.0.0.1:*") as trainer:
        for _ in range(2):
            programs.worker(trainer.endpoints[0], damaged.root)
        trainer.wait_for_workers(2, 30 * SECOND)
        stream = trainer.stream(damaged, CLIP, **HOW)
        assert digest(stream.batches(epochs=2, info=True)) == serial


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Six good files, and two whose beginning alone can be decoded."""
    folder = tmp_path_factory.mktemp("torn")
    for seed in range(6):
        make_avi(folder / f"all/good{seed}.avi", frames=30, seed=seed)
    for seed in range(2):
        made = make_avi(folder / f"all/torn{seed}.avi", frames=130, codec="utvideo", seed=9 + seed)
        with av.open(str(made)) as container:
            packets = [packet for packet in container.demux() if packet.size]
            places = [(packet.pos or 0, packet.size) for packet in packets]
        data = bytearray(made.read_bytes())
        for at, size in places[20:]:
            data[at + 8 : at + 8 + size] = bytes(size)  # after the chunk's own header
        made.write_bytes(data)
    return Catalog.from_folder(folder)


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_the_sound_rest_of_a_video_with_one_damaged_place_is_used_by_every_way(
    on_error: Literal["substitute", "skip"], torn: Catalog, client: Client
) -> None:
    clip = ClipSpec(4, size=(32, 32), resize=48, sampling="uniform", clips_per_video=10)
    how: dict[str, Any] = {"shuffle": True, "max_bad": 1.0, "on_error": on_error}
    serial = digests(decode_serially(torn, clip, 2, epochs=2, info=True, **how))
    stream = client.stream(torn, clip, 2, **how)
    assert digests(stream.batches(epochs=2, info=True)) == serial
    bad = {video.path for video in stream.quarantine}
    assert bad == {f"all/torn{number}.avi" for number in range(2)}
    if on_error == "substitute":
        for step in (40, 61):  # whatever was known before
            resumed = decode_serially(torn, clip, 2, start_step=step, epochs=2, info=True, **how)
            assert digests(resumed) == serial[step:]
