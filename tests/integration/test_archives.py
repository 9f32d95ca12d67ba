"""Videos in archives: the same stream as from a folder, whoever wrote them and whatever fails."""

import io
import os
import re
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import videoload as vl
from tests.support.digests import digest, digests
from tests.support.object_server import ObjectServer
from tests.support.servers import objects
from tests.support.videos import make_avi
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.errors import CatalogError, StorageError, VideoError

SPEC = ClipSpec(frames=4, stride=2, size=(32, 32), resize=40, sampling="random", short="hold")
COUNT = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos and captions in a folder."""
    root = tmp_path_factory.mktemp("archives")
    for n in range(COUNT):
        make_avi(root / f"{n:04}.avi", frames=20 + n, seed=n)
        (root / f"{n:04}.txt").write_text(f"caption {n}")
        (root / f"{n:04}.cls").write_text(str(n % 3))
        (root / f"{n:04}.json").write_text(f'{{"worker": "w{n % 2}", "start": 5}}')
    return root


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A web server for an empty folder, but for a video in a folder that is named like a tar."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "a.tar").mkdir()
    (folder / "a.tar" / "0001.avi").write_bytes((home / "0001.avi").read_bytes())
    with objects(folder, "a.tar/0001.avi") as made:
        yield made


def packed(home: Path, path: Path, form: int) -> None:
    with tarfile.open(path, "w", format=form) as archive:
        for file in sorted(home.iterdir()):
            archive.add(file, file.name)


def zipped(home: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(home.iterdir()):
            archive.write(file, file.name)


def by_gnu(home: Path, path: Path) -> None:
    subprocess.run(["tar", "--sort=name", "-cf", path, "-C", home, "."], check=True)


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "ustar": lambda home, path: packed(home, path, tarfile.USTAR_FORMAT),
    "pax": lambda home, path: packed(home, path, tarfile.PAX_FORMAT),
    "gnu": by_gnu,
    "zip": zipped,
}


def in_shards(home: Path, root: Path, writer: str = "pax") -> Catalog:
    WRITERS[writer](home, root / f"0.{'zip' if writer == 'zip' else 'tar'}")
    return Catalog.from_shards(
        str(root / "*.*"), label="cls", targets={"caption": "txt", "worker": "json:worker"}
    )


def reference(home: Path) -> Catalog:
    rows = range(COUNT)
    table = {
        "path": [f"{n:04}.avi" for n in rows],
        "label": [str(n % 3) for n in rows],
        "caption": [f"caption {n}" for n in rows],
        "worker": [f"w{n % 2}" for n in rows],
    }
    targets = {"caption": "caption", "worker": "worker"}
    return Catalog.from_table(table, home, label="label", targets=targets)


@pytest.mark.parametrize("writer", WRITERS)
def test_members_are_the_files_of_a_folder(home: Path, tmp_path: Path, writer: str) -> None:
    catalog = in_shards(home, tmp_path, writer)
    expected = digest(decode_serially(reference(home), SPEC, 4, shuffle=True, seed=3))
    assert digest(decode_serially(catalog, SPEC, 4, shuffle=True, seed=3)) == expected


def test_a_stream_of_shards_survives_a_worker_and_goes_on_in_mid_epoch_with_other_ranks(
    home: Path, tmp_path: Path
) -> None:
    catalog = in_shards(home, tmp_path)
    how: Any = {"shuffle": True, "seed": 3}
    expected = digests(decode_serially(reference(home), SPEC, 2, **how, start_step=0, epochs=2))
    with Client(workers=2) as client:
        batches = client.stream(catalog, SPEC, 2, **how).batches(start_step=0, epochs=2)
        found = digests([next(batches)])
        os.kill(client.workers[0].pid, signal.SIGKILL)
        assert found + digests(batches) == expected
        for rank in range(3):
            shard: Any = {**how, "shard": (rank, 3)}
            there = decode_serially(reference(home), SPEC, 2, **shard, start_step=1, epochs=1)
            stream = client.stream(catalog, SPEC, 2, **shard)
            assert digest(stream.batches(start_step=1, epochs=1)) == digest(there)


def test_a_shard_that_is_rewritten_in_a_stream_gives_its_own_videos_or_one_error(
    home: Path, tmp_path: Path
) -> None:
    catalog = in_shards(home, tmp_path)
    expected = digest(decode_serially(reference(home), SPEC, 4, start_step=0, epochs=2))
    batches = decode_serially(catalog, SPEC, 4, start_step=0, epochs=2)
    found = [next(batches)]
    other = tmp_path / "new" / "0.tar"
    other.parent.mkdir()
    WRITERS["gnu"](home, other)  # other places
    other.replace(tmp_path / "0.tar")
    assert digest([*found, *batches]) == expected
    batches = decode_serially(catalog, SPEC, 4, start_step=0, epochs=2, max_bad=1.0)
    next(batches)
    with tarfile.open(other, "w") as archive:
        archive.add(home / "0000.avi", "0000.avi")
    other.replace(tmp_path / "0.tar")
    with pytest.raises(StorageError, match=r"0\.tar"):
        list(batches)


def test_one_file_of_an_archive_is_opened_scanned_and_listed_like_others(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    WRITERS["zip"](home, tmp_path / "run" / "x.zip")
    path = "run/x.zip/0003.avi"
    with vl.open(tmp_path / path) as inside, vl.open(home / "0003.avi") as outside:
        assert (inside[:] == outside[:]).all()
    catalog = Catalog.from_folder(tmp_path)
    assert len(catalog) == COUNT
    assert (catalog[3].path, catalog.classes) == (path, ("run",))
    with pytest.raises(CatalogError, match="from_shards"):
        Catalog.from_folder(tmp_path / "run")


def test_shards_below_a_url_are_read_by_ranges(
    home: Path, server: ObjectServer, tmp_path: Path
) -> None:
    for n in range(2):
        WRITERS["pax"](home, server.folder / f"t-{n}.tar")
    local = Catalog.from_shards(f"{server.folder}/t-{{0..1}}.tar", label="cls")
    catalog = Catalog.from_shards(f"{server.url}/t-{{0..1}}.tar", label="cls")
    assert catalog.paths == local.paths
    how: Any = {"start_step": 0, "epochs": 2}
    expected = digest(decode_serially(local, SPEC, 4, shuffle=True, seed=3, **how))
    assert digest(decode_serially(catalog, SPEC, 4, shuffle=True, seed=3, **how)) == expected
    with Client(workers=2, file_cache=tmp_path) as client:
        stream = client.stream(catalog, SPEC, 4, shuffle=True, seed=3)
        assert digest(stream.batches(**how)) == expected
    for path in ("t-0.tar/no.avi", "no.tar/0001.avi", "a.tar/no.avi"):
        with pytest.raises(VideoError, match=re.escape(path)):
            vl.open(f"{server.url}/{path}")
    with pytest.raises(CatalogError):
        Catalog.from_shards(f"{server.url}/no.tar", label="cls")


def test_a_shard_that_is_rewritten_below_a_url_is_one_error(
    home: Path, server: ObjectServer, tmp_path: Path
) -> None:
    shard, new = server.folder / "r.tar", tmp_path / "new"
    WRITERS["pax"](home, shard)
    catalog = Catalog.from_shards(f"{server.url}/r.tar")
    expected = digest(decode_serially(catalog, SPEC, 4, start_step=0, epochs=2))
    batches = decode_serially(catalog, SPEC, 4, start_step=0, epochs=2)
    found = [next(batches)]
    WRITERS["gnu"](home, new)
    new.replace(shard)
    assert digest([*found, *batches]) == expected
    batches = decode_serially(catalog, SPEC, 4, start_step=0, epochs=9, max_bad=1.0)
    next(batches)
    with tarfile.open(new, "w") as archive:
        archive.add(home / "0000.avi", "0000.avi")
    new.replace(shard)
    with pytest.raises(StorageError, match=r"r\.tar"):
        list(batches)


def test_the_headers_of_a_shard_are_few_of_its_bytes(server: ObjectServer) -> None:
    with tarfile.open(server.folder / "big.tar", "w") as archive:
        for n in range(16):
            entry = tarfile.TarInfo(f"{n}.mp4")
            entry.size = 2 << 20
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    before = server.bytes_sent
    assert len(Catalog.from_shards(f"{server.url}/big.tar")) == 16
    assert server.bytes_sent - before < (1 << 20) + 0.05 * 16 * (2 << 20)  # it looks at the first
