"""Videos in archives: the same stream as from a folder, whoever wrote them and whatever fails."""

import os
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import videoload as vl
from tests.support.digests import digest, digests
from tests.support.videos import make_avi
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.errors import CatalogError, StorageError

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
