"""Videos in archives: the same stream as from a folder, whoever wrote them and whatever fails."""

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from benchmarks.numbered import make_numbered
from tests.support.digests import digest, digests
from tests.support.object_server import ObjectServer
from tests.support.programs import Programs
from tests.support.servers import bucket, objects
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import CatalogError, StorageError, TooManyBadVideos, VideoError
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.kept_rows import KeptRows
from videoload.storage.roots import open_storage
from videoload.tools.indexing import make_index
from videoload.tools.scan import scan

SPEC = ClipSpec(frames=4, stride=2, size=(32, 32), resize=40, sampling="random", short="hold")
DENSE = ClipSpec(frames=4, stride=2, size=(32, 32), sampling="dense")
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


def by_bsdtar(home: Path, path: Path) -> None:
    if shutil.which("bsdtar") is None:
        pytest.skip("needs bsdtar")
    names = sorted(file.name for file in home.iterdir())
    subprocess.run(["bsdtar", "-cf", path, "-C", home, *names], check=True)


def by_zip(home: Path, path: Path) -> None:
    if shutil.which("zip") is None:
        pytest.skip("needs zip")
    names = sorted(file.name for file in home.iterdir())
    subprocess.run(["zip", "-q", "-0", path, *names], cwd=home, check=True)


def by_webdataset(home: Path, path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="needs webdataset")
    with webdataset.TarWriter(str(path)) as writer:
        for n in range(COUNT):
            files = {field: home / f"{n:04}.{field}" for field in ("avi", "txt", "cls", "json")}
            sample = {field: file.read_bytes() for field, file in files.items()}
            writer.write({"__key__": f"{n:04}", **sample})


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "ustar": lambda home, path: packed(home, path, tarfile.USTAR_FORMAT),
    "pax": lambda home, path: packed(home, path, tarfile.PAX_FORMAT),
    "gnu": by_gnu,
    "gnu by tarfile": lambda home, path: packed(home, path, tarfile.GNU_FORMAT),
    "bsdtar": by_bsdtar,
    "webdataset": by_webdataset,
    "zip": zipped,
    "zip -0": by_zip,
}


def in_shards(home: Path, root: Path, writer: str = "pax") -> Catalog:
    WRITERS[writer](home, root / f"0.{'zip' if 'zip' in writer else 'tar'}")
    return Catalog.from_shards(
        str(root / "*.*"), label="cls", targets={"caption": "txt", "worker": "json:worker"}
    )


def reference(home: Path, begins: str = "", root: Path | None = None) -> Catalog:
    rows = range(COUNT)
    table = {
        "path": [f"{begins}{n:04}.avi" for n in rows],
        "label": [str(n % 3) for n in rows],
        "caption": [f"caption {n}" for n in rows],
        "worker": [f"w{n % 2}" for n in rows],
    }
    targets = {"caption": "caption", "worker": "worker"}
    return Catalog.from_table(table, root or home, label="label", targets=targets)


@pytest.mark.parametrize("writer", WRITERS)
def test_members_are_the_files_of_a_folder(home: Path, tmp_path: Path, writer: str) -> None:
    catalog = in_shards(home, tmp_path, writer)
    expected = digest(decode_serially(reference(home), SPEC, 4, shuffle=True, seed=3))
    assert digest(decode_serially(catalog, SPEC, 4, shuffle=True, seed=3)) == expected
    names = tuple(path.partition("/")[2] for path in catalog.paths)
    listed = reference(home, f"{catalog.paths[0].partition('/')[0]}/", tmp_path)
    assert names == reference(home).paths
    assert digest(decode_serially(listed, SPEC, 4, shuffle=True, seed=3)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_members_of_any_archive(
    home: Path, tmp_path: Path, workers: int
) -> None:
    how: Any = {"shuffle": True, "seed": 3}
    expected = digest(decode_serially(reference(home), SPEC, 2, **how, start_step=0, epochs=2))
    with Client(workers=workers) as client:
        for n, writer in enumerate(WRITERS):
            (root := tmp_path / str(n)).mkdir()
            try:
                catalog = in_shards(home, root, writer)
            except pytest.skip.Exception:
                continue
            batches = client.stream(catalog, SPEC, 2, **how).batches(start_step=0, epochs=2)
            first = next(batches)
            if n == 0:
                os.kill(client.workers[0].pid, signal.SIGKILL)
            assert digest([first, *batches]) == expected, writer


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


def test_workers_read_members_where_they_were_listed(home: Path, tmp_path: Path) -> None:
    """None of them walks a shard: this one cannot be walked any more."""
    (tmp_path / "0").write_text("in front")
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for file in (tmp_path / "0", *sorted(home.iterdir())):
            archive.add(file, file.name)
    targets = {"caption": "txt", "worker": "json:worker"}
    catalog = Catalog.from_shards(str(tmp_path / "*.tar"), label="cls", targets=targets)
    listed = Catalog.from_table({"path": catalog.paths}, tmp_path)
    with (tmp_path / "0.tar").open("r+b") as written:
        written.write(b"damaged")
    how: Any = {"start_step": 0, "epochs": 1}
    expected = digest(decode_serially(reference(home), SPEC, 4, shuffle=True, seed=3, **how))
    assert digest(decode_serially(catalog, SPEC, 4, shuffle=True, seed=3, **how)) == expected
    with Client(workers=2) as client:
        stream = client.stream(catalog, SPEC, 4, shuffle=True, seed=3)
        assert digest(stream.batches(**how)) == expected
    with Client(workers=1) as client, pytest.raises(TooManyBadVideos):
        list(client.stream(listed, SPEC, 4).batches(**how))


def test_places_decide_nothing(home: Path, tmp_path: Path) -> None:
    catalog = in_shards(home, tmp_path)
    listed = reference(home, "0.tar/", tmp_path)
    assert listed == catalog
    assert [part.paths for part in listed.split(0.5)] == [part.paths for part in catalog.split(0.5)]
    with Client(workers=1) as client:
        streams = [client.stream(each, SPEC, 4, shuffle=True, seed=3) for each in (catalog, listed)]
        assert streams[0].fingerprint == streams[1].fingerprint
        batches = iter(streams[0])
        next(batches)
        streams[1].load_state_dict(streams[0].state_dict())
        assert digest([next(iter(streams[1]))]) == digest([next(batches)])
    assert "places" not in repr(catalog[0])


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_shard_that_was_rewritten_is_one_error_of_a_client(
    home: Path, tmp_path: Path, when: str
) -> None:
    catalog = in_shards(home, tmp_path)
    with tarfile.open(tmp_path / "new", "w") as archive:
        archive.add(home / "0000.avi", "0000.avi")
        for n in range(1, COUNT):  # other videos of these sizes
            entry = tarfile.TarInfo(f"other-{n}.avi")
            entry.size = (home / f"{n:04}.avi").stat().st_size
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    with Client(workers=2) as client:
        stream = client.stream(catalog, SPEC, 2, shuffle=True, seed=3, max_bad=1.0)
        batches = stream.batches(start_step=0, epochs=99)
        if when == "during":
            expected = decode_serially(catalog, SPEC, 2, shuffle=True, seed=3, start_step=0)
            assert digest([next(batches)]) == digest([next(expected)])
        (tmp_path / "new").replace(tmp_path / "0.tar")
        with pytest.raises(StorageError, match=r"0\.tar"):
            list(batches)
        assert not stream.quarantine


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


def test_commands_and_models_see_the_members_of_an_archive(home: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    WRITERS["pax"](home, tmp_path / "run" / "x.tar")
    catalog = Catalog.from_folder(tmp_path)
    rows = scan(catalog, processes=1)
    assert [row.path for row in rows] == [f"run/x.tar/{n:04}.avi" for n in range(COUNT)]
    assert [row.frames for row in rows] == [20 + n for n in range(COUNT)]
    sizes = [(home / f"{n:04}.avi").stat().st_size for n in range(COUNT)]
    assert [row.file_bytes for row in rows] == sizes
    found = []
    with Client(workers=1) as client:
        for each, name in ((catalog, "inside"), (reference(home), "outside")):
            picture = tmp_path / f"{name}.png"
            client.stream(each, SPEC, 4).preview(picture, 1)
            made = vl.predict(lambda clips: clips.reshape(len(clips), -1), client, each, DENSE)
            found.append((picture.exists(), [file.scores.tobytes() for file in made.files]))
    assert found[0] == found[1]


@pytest.mark.slow
def test_extract_writes_what_a_model_says_of_members_and_names_the_bad_ones(
    tmp_path: Path, programs: Programs
) -> None:
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for n in range(2):
            make_numbered(tmp_path / f"{n}.avi", 30)
            archive.add(tmp_path / f"{n}.avi", f"in/{n}.avi")
        entry = tarfile.TarInfo("in/bad.avi")
        entry.size = 999
        archive.addfile(entry, io.BytesIO(b"x" * 999))
    (tmp_path / "all.csv").write_text("path\n0.tar/in/0.avi\n0.tar/in/bad.avi\n0.tar/in/1.avi\n")
    (tmp_path / "mine.py").write_text("from benchmarks.numbered import read_numbers as read\n")
    for source in ("*.tar", "all.csv"):
        out = f"out-{source.strip('*.')}"
        done = programs.videoload(
            "extract", source, out, "--model", "mine:read", "--workers", "1", "--name", "numbers",
            "--clip", "frames=8, hop=8, size=(64, 64)", cwd=tmp_path,
        )  # fmt: skip
        assert done.wait(60 * SECOND) == 1, done.err
        assert "2 of 3 files" in done.out
        assert done.err.count("0.tar/in/bad.avi: ") == 1
        for n in range(2):
            found = np.load(tmp_path / out / f"0.tar/in/{n}.avi.npy")
            assert found[:, 0].tolist() == [0, 8, 16]


@pytest.mark.usefixtures("server")  # obstore keeps an event loop from the first request on
def test_a_bucket_gives_the_shards_of_a_pattern_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("train-0.tar", "train-1.tar", "val-0.tar", "more/train-2.tar", "trainer.tar")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        WRITERS["pax"](home, tmp_path / name)
    with bucket(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for given in ("s3://clips/data/train-*.tar", "s3://clips/data/train-{0..1}.tar"):
            catalog = Catalog.from_shards(given, label="cls")
            assert {path.partition("/")[0] for path in catalog.paths} == {*names[:2]}
        below = [f"s3://clips/data/{name}" for name in ("more/*.tar", "val-*.tar", "trainer.tar")]
        for several, root in ((below, None), (below, "s3://clips/data")):
            found = Catalog.from_shards(several, root)
            assert found.root == "s3://clips/data"
            assert len(found) == 3 * COUNT
        everything = Catalog.from_folder("s3://clips/data", label=None)
        assert everything.paths == Catalog.from_folder(tmp_path, label=None).paths
        assert len(everything) == len(names) * COUNT
        local = Catalog.from_shards(f"{tmp_path}/train-*.tar", label="cls")
        how: Any = {"shuffle": True, "seed": 3, "start_step": 0, "epochs": 1}
        expected = digest(decode_serially(local, SPEC, 4, **how))
        assert digest(decode_serially(catalog, SPEC, 4, **how)) == expected


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
    other = tmp_path / "others.tar"  # as long, so that other members are at these places
    with tarfile.open(other, "w") as archive:
        for file in sorted(home.iterdir()):
            archive.add(file, f"other/{file.name}")
    for rewritten in (shard.read_bytes(), other.read_bytes()):
        shard.write_bytes(rewritten)
        with Client(workers=1) as client:
            stream = client.stream(catalog[1:], SPEC, 4, max_bad=1.0)
            batches = stream.batches(start_step=0, epochs=1)
            with pytest.raises(StorageError, match=r"r\.tar"):
                list(batches)
            assert not stream.quarantine


def test_shards_whose_index_lies_beside_them_are_not_walked(
    home: Path, server: ObjectServer, tmp_path: Path
) -> None:
    for n in range(3):
        WRITERS["pax"](home, server.folder / f"i-{n}.tar")
    index, url = server.folder / ".videoload-index", f"{server.url}/i-{{0..2}}.tar"
    listed = Catalog.from_shards(url)
    assert make_index(listed, str(index), processes=1).files == len(listed)
    before = len(server.requests)
    assert Catalog.from_shards(url) == listed
    assert len(server.requests) - before <= 2 + 3  # the index, and a byte of each shard
    assert Catalog.from_shards(url, targets={"caption": "txt"}).targets is not None
    WRITERS["gnu"](home, server.folder / "i-1.tar")  # it is not what the index says
    assert Catalog.from_shards(url) == listed
    how: Any = {"start_step": 0, "epochs": 1}
    local = Catalog.from_shards(f"{server.folder}/i-{{0..2}}.tar")
    expected = digest(decode_serially(local, SPEC, 4, **how))
    assert digest(decode_serially(listed, SPEC, 4, **how)) == expected
    index.unlink()


def test_members_below_a_url_take_the_requests_of_plain_files(
    home: Path, server: ObjectServer, tmp_path: Path
) -> None:
    shutil.copytree(home, server.folder / "plain")
    WRITERS["pax"](home, server.folder / "q.tar")
    shards = Catalog.from_shards(f"{server.url}/q.tar")
    row_of = rows_for_workers(shards, one_clip(SPEC))
    members = [row_of(n) for n in range(COUNT)]
    files = [Video(f"plain/{row.path.partition('/')[2]}") for row in members]
    out = np.empty((1, *SPEC.shape), np.uint8)
    requests, sent = list[int](), list[int]()
    index = server.folder / ".videoload-index"
    for n, rows in enumerate((files, members, files, members)):
        if n == 2:
            listed = [row.path for row in (*files, *members)]
            make_index(Catalog.from_table({"path": listed}, server.url), str(index), processes=1)
        cache = tmp_path / f"{n}"
        cache.mkdir(0o700)
        for _ in range(2):  # the second time, this host knows their indexes
            decoder = Decoder(server.url, folders=CacheDirectories(str(cache)))
            before = len(server.requests), server.bytes_sent
            for row in rows:
                decoder.decode(row.path, SPEC, [Clip(1, row=row)], out)
            requests.append(len(server.requests) - before[0])
            sent.append(server.bytes_sent - before[1])
    index.unlink()
    assert requests[:2] == requests[2:4]
    assert requests[4:6] == requests[6:]  # with an index beside them
    assert sent[4:6] == sent[6:]
    header = 2560
    assert sent[2] <= sent[0] + COUNT * header
    assert sent[3] == sent[1]


@pytest.mark.parametrize("writer", ["pax", "zip"])
def test_a_place_below_a_url_gives_no_bytes_behind_those_that_are_missing(
    home: Path, server: ObjectServer, writer: str
) -> None:
    shard = server.folder / f"cut.{'zip' if writer == 'zip' else 'tar'}"
    WRITERS[writer](home, shard)
    catalog = Catalog.from_shards(f"{server.url}/{shard.name}")
    row_of = rows_for_workers(catalog, one_clip(SPEC))
    data = shard.read_bytes()
    shard.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 100 :])
    storage, read = open_storage(server.url), 0
    for row in map(row_of, range(COUNT)):
        storage.expect(row.path, row.places)
        with suppress(VideoError, StorageError):
            file = storage.resolve(row.path)
            name = row.path.partition("/")[2]
            assert bytes(file.open().pread(file.size, 0)) == (home / name).read_bytes()
            read += 1
    assert COUNT // 3 < read < COUNT
    storage.close()


class ForgedRows(KeptRows):
    """Rows of an index that say that a member is elsewhere, or what no index says."""

    def versions(self, path: str, wait: bool) -> list[bytes]:
        whole = (self.version(path.partition("/")[0], wait) or b"1").decode()
        forged = ("", "\n", "\n0", "\nx y", f"\n0 {1 << 50}", f"\n{1 << 70} 1", "\n-1 3")
        return [f"{whole}{each}".encode() for each in forged]


def test_forged_rows_lead_to_nothing_outside_of_a_shard(
    home: Path, server: ObjectServer, tmp_path: Path
) -> None:
    WRITERS["pax"](home, server.folder / "forged.tar")
    (tmp_path / "cache").mkdir(0o700)
    for _ in range(2):  # the second time, a walk is cached
        storage = open_storage(server.url)
        storage.keep(ForgedRows(str(tmp_path / "cache"), server.url, ""))
        for n in range(3):
            file = storage.resolve(f"forged.tar/{n:04}.avi")
            assert bytes(file.open().pread(1 << 20, 0)) == (home / f"{n:04}.avi").read_bytes()
        storage.close()


def test_a_table_below_a_url_walks_a_shard_in_few_requests(server: ObjectServer) -> None:
    with tarfile.open(server.folder / "near.tar", "w") as archive:
        for n in range(64):
            entry = tarfile.TarInfo(f"{n}.mp4")
            entry.size = 100_000
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    storage, before = open_storage(server.url), len(server.requests)
    assert storage.resolve("near.tar/63.mp4").size == 100_000
    assert len(server.requests) - before < 64 / 4
    storage.close()


def test_the_headers_of_a_shard_are_few_of_its_bytes(server: ObjectServer) -> None:
    with tarfile.open(server.folder / "big.tar", "w") as archive:
        for n in range(16):
            entry = tarfile.TarInfo(f"{n}.mp4")
            entry.size = 2 << 20
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    before = server.bytes_sent
    assert len(Catalog.from_shards(f"{server.url}/big.tar")) == 16
    assert server.bytes_sent - before < (1 << 20) + 0.05 * 16 * (2 << 20)  # it looks at the first
