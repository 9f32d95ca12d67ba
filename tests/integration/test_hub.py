"""Streams of a dataset of a hub: the bytes of a folder, of one commit, whoever reads them."""

import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.digests import digest
from tests.support.hub_server import NAME, TOKEN, HubServer
from tests.support.lerobot import make_lerobot
from tests.support.programs import Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")
ROOT = f"hf://datasets/{NAME}@main"


@pytest.fixture
def folder(videos: Videos, tmp_path: Path) -> Path:
    return Path(shutil.copytree(videos.root, tmp_path / "data" / "ucf").parent)


@pytest.fixture
def server(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A private dataset, and a token for it."""
    with HubServer(folder) as made:
        made.use(monkeypatch, tmp_path)
        made.token = TOKEN
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield made
    assert not made.leaked, "the delivery network got the token"


def of(catalog: Catalog) -> str:
    return digest(decode_serially(catalog, SPEC, 2, shuffle=True))


def test_every_kind_of_catalog_reads_a_dataset(folder: Path, server: HubServer) -> None:
    pytest.importorskip("pyarrow")
    videos = sorted((folder / "ucf").rglob("*.avi"))
    make_lerobot(folder / "robot", [7, 9, 8])
    with tarfile.open(folder / "0.tar", "w") as shard:
        for number, path in enumerate(videos[:4]):
            shard.add(path, f"{number:04}.avi")
    server.commit(folder)
    names = [path.relative_to(folder).as_posix() for path in videos]
    here, there = folder, ROOT
    table = {"path": names, "label": [n % 2 for n in range(len(names))]}
    kinds: list[Callable[[Path | str], Catalog]] = [
        lambda root: Catalog.from_folder(f"{root}/ucf"),
        lambda root: Catalog.from_table(table, root=root),
        lambda root: Catalog(names, [0] * len(names), ["any"], root),
        lambda root: Catalog.from_shards("*.tar", root),
        lambda root: Catalog.from_shards(f"{root}/0.tar"),
    ]
    for kind in kinds:
        assert of(kind(there)) == of(kind(here))
    robots = [Catalog.from_lerobot(f"{root}/robot") for root in (here, there)]
    assert robots[0].paths == robots[1].paths
    assert robots[1].root == f"hf://datasets/{NAME}@{server.branches['main']}/robot"


def test_a_stream_is_of_one_commit_whichever_worker_reads_and_whatever_the_hub_says(
    folder: Path, server: HubServer, programs: Programs
) -> None:
    """A branch that moves, and a hub that is asked too often, change nothing."""
    reference = digest(
        decode_serially(Catalog.from_folder(folder / "ucf"), SPEC, 2, shuffle=True, epochs=2)
    )
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        catalog = Catalog.from_folder(f"{ROOT}/ucf")
        stream = client.stream(catalog, SPEC, 2, shuffle=True)
        server.busy = [{"Retry-After": "1"}]
        batches = stream.batches(epochs=2)
        got = [next(batches)]
        for path in (folder / "ucf").rglob("*.avi"):
            make_avi(path, frames=30, seed=9)
        server.commit(folder)
        worker = programs.worker(client.endpoints[0], str(catalog.root))
        got += batches
        assert digest(iter(got)) == reference
        assert (stream.quarantine, stream.changed) == ([], [])
        worker.end()
        assert TOKEN not in worker.out + worker.err


def test_scan_and_index_read_a_dataset(
    folder: Path, server: HubServer, programs: Programs, tmp_path: Path
) -> None:
    scan = programs.videoload("scan", f"{ROOT}/ucf")
    assert scan.wait(60 * SECOND) == 0, scan.err
    refused = programs.videoload("index", f"{ROOT}/ucf")
    assert refused.wait(60 * SECOND) == 1
    assert "--out" in refused.err
    index = tmp_path / "index"
    done = programs.videoload("index", f"{ROOT}/ucf", "--out", str(index))
    assert done.wait(60 * SECOND) == 0, done.err
    before = len(server.ranges)
    with Client(workers=1, index=index) as client:
        stream = client.stream(Catalog.from_folder(f"{ROOT}/ucf"), SPEC, 2, shuffle=True)
        expected = digest(
            decode_serially(Catalog.from_folder(folder / "ucf"), SPEC, 2, shuffle=True)
        )
        assert digest(stream) == expected
    assert len(server.ranges) > before
    for program in (scan, refused, done):
        assert TOKEN not in program.out + program.err
