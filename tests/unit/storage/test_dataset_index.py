"""The index of a set: found out once for all hosts, and never believed of another file."""

import math
import os
import random
import shutil
import signal
import sqlite3
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from tests.support.leaks import collect_garbage
from tests.support.mutants import mutant
from tests.support.object_server import ObjectServer
from tests.support.programs import Programs
from tests.support.servers import asked, bucket
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import VideoError, VideoloadError
from videoload.reading.index import VideoIndex
from videoload.reading.order import FrameTable
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.dataset_index import NAME, DatasetIndex
from videoload.storage.roots import open_storage
from videoload.tools.indexing import Made, make_index
from videoload.versions import index_software

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = vl.ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")
COUNTED = vl.ClipSpec(4, resize=40, size=(32, 32), sampling="dense", hop=9, short="hold")
LONG, OTHER = "jump/long.avi", "walk/gop12.avi"


@pytest.fixture(scope="module")
def files(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Also a file that comes in ranges, and one that only a complete decode tells."""
    root = Path(shutil.copytree(videos.root, tmp_path_factory.mktemp("files") / "set"))
    make_avi(root / "jump/large.mp4", frames=200, codec="libx264", size=(144, 192), seed=1,
             container_format="mp4")  # fmt: skip
    make_avi(root / "jump/palette.avi", frames=30, codec="cinepak", pixels="rgb24", size=(32, 48))
    return root


@pytest.fixture
def folder(files: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(files, tmp_path / "set"))


@pytest.fixture
def server(folder: Path) -> Iterator[ObjectServer]:
    with ObjectServer(folder) as serving:
        yield serving


def catalog_of(root: str | Path, folder: Path) -> vl.Catalog:
    files = sorted(each for each in folder.rglob("*.*") if each.suffix in (".avi", ".mp4"))
    return vl.Catalog([each.relative_to(folder).as_posix() for each in files], root=root)


def made(root: str | Path, folder: Path, out: Path | None = None) -> Made:
    """Write the index of a folder, or of a server for it; in this process, as far as possible."""
    catalog, cache = catalog_of(root, folder), str(folder.parent / "made")
    reading = Decoder(root, folders=CacheDirectories(cache, index=False))
    for path in catalog.paths:
        with suppress(VideoError):
            reading.videos.index(path)
    del reading
    collect_garbage()  # what it has found out is written then
    return make_index(catalog, str(out) if out else None, processes=1, cache=cache)


def decoded(root: str | Path, folder: Path, index: str | Path | bool | None = None) -> list[object]:
    """Clips of all files, and all windows of them: bytes, or the error."""
    told = None if index is None else str(index) if index else False
    decoder, found = Decoder(root, folders=CacheDirectories(index=told)), list[object]()
    for seed, path in enumerate(catalog_of(root, folder).paths):
        out = np.zeros((1, *SPEC.shape), np.uint8)
        try:
            decoder.decode(path, SPEC, [Clip(seed)], out)
            found.append((path, out.tobytes(), decoder.videos.info(path)))
        except VideoError as error:
            found.append(str(error))
    return found


def test_batches_are_the_same_and_a_set_that_grew_is_read_where_it_did(
    folder: Path, programs: Programs
) -> None:
    (folder / "jump/bad.avi").write_bytes(b"no video")
    done = programs.videoload("index", str(folder))
    assert done.wait(120 * SECOND) == 0
    assert "jump/bad.avi" in done.err
    catalog = catalog_of(folder, folder)
    for spec in (SPEC, COUNTED):
        with_index, without = (
            list(vl.decode_serially(catalog, spec, 3, max_bad=1.0, index=each))
            for each in (None, False)
        )
        for (clips, _), (same, _) in zip(with_index, without, strict=True):
            assert np.array_equal(clips, same)
    shutil.copy(folder / OTHER, folder / "jump/new.avi")
    shutil.copy(folder / OTHER, folder / LONG)
    assert made(folder, folder).read == 1, "the bad one is looked at each time"
    assert made(folder, folder).files == len(catalog_of(folder, folder)) - 1
    assert decoded(folder, folder) == decoded(folder, folder, index=False)
    with vl.open(folder / "jump/large.mp4") as video:
        assert len(video) == 200


def test_of_a_server_that_can_neither_be_listed_nor_written_an_index_may_lie_elsewhere(
    folder: Path, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then only wanted ranges of a large file are read, and its first clip takes few requests."""
    for place in ("storage.remote", "reading.index"):  # the file counts as large
        monkeypatch.setattr(f"videoload.{place}.FIRST_BYTES", 9000)
    with pytest.raises(VideoloadError, match="--out"):
        make_index(catalog_of(server.url, folder), processes=1)
    out, path = tmp_path / "set.index", "jump/large.mp4"
    assert made(server.url, folder, out).files == len(catalog_of(folder, folder))
    assert decoded(server.url, folder, out) == decoded(folder, folder, index=False)
    shutil.copy(out, folder / "there.index")
    size = (folder / path).stat().st_size
    assert size > 100_000
    for index in (str(out), f"{server.url}/there.index"):
        server.requests.clear()
        decoder = Decoder(server.url, folders=CacheDirectories(index=index))
        decoder.decode(path, SPEC, [Clip(5)], np.zeros((1, *SPEC.shape), np.uint8))
        sent = [sent for name, sent in asked(server) if name == path]
        assert len(sent) <= 5
        assert sum(sent) < 0.8 * size
        with vl.open(f"{server.url}/{path}", index=index, cache=False) as video:
            assert len(video) == 200


def test_a_bucket_has_its_index_beside_the_videos_and_each_host_fetches_it_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket(folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        root = "s3://clips/data"
        assert made(root, folder).where == f"{root}/{NAME}"
        assert made(root, folder).read == 0
        assert decoded(root, folder) == decoded(folder, folder, index=False)
        assert NAME not in vl.Catalog.from_folder(root, label=None).paths
    shutil.copy(made(folder, folder, tmp_path / "out").where, folder / NAME)
    with ObjectServer(folder) as server:
        for _ in range(3):
            Decoder(server.url, folders=CacheDirectories(str(tmp_path / "host"))).videos.info(LONG)
        whole = [sent for name, sent in server.requests if name == NAME and sent > 1]
        assert whole == [(folder / NAME).stat().st_size]


def test_parts_of_several_hosts_are_put_together(folder: Path, tmp_path: Path) -> None:
    catalog, parts = catalog_of(folder, folder), [str(tmp_path / f"part-{k}") for k in range(3)]
    for k, part in enumerate(parts):
        host = str(tmp_path / f"host-{k}")
        told = make_index(catalog, part, processes=1, cache=host, part=(k, 3))
        assert told.read == told.files == len(catalog.paths[k::3])
    told = make_index(catalog, processes=1, cache=str(tmp_path / "host"), others=parts)
    assert (told.files, told.read) == (len(catalog), 0)


@pytest.mark.slow
def test_a_call_that_is_killed_goes_on_where_it_was(
    folder: Path, server: ObjectServer, tmp_path: Path, programs: Programs
) -> None:
    table, out = tmp_path / "set.csv", tmp_path / "set.index"
    for number in range(30):
        shutil.copy(folder / OTHER, folder / f"jump/{number}.avi")
    paths = catalog_of(folder, folder).paths
    table.write_text("path\n" + "\n".join(paths))
    server.latency_s = 0.2
    arguments = ("index", str(table), "--root", server.url, "--out", str(out), "--workers", "1",
                 "--cache", str(tmp_path / "cache"))  # fmt: skip
    first = programs.videoload(*arguments)
    wait_until(lambda: len({path for path, sent in asked(server) if sent > 1}) >= 25, 60 * SECOND)
    first.signal(signal.SIGKILL)
    first.wait(30 * SECOND)
    read = list(dict.fromkeys(path for path, sent in asked(server) if sent > 1))
    server.requests.clear()
    server.latency_s = 0.0
    assert programs.videoload(*arguments).wait(120 * SECOND) == 0
    again = {path for path, sent in asked(server) if sent > 1} & {*read}
    assert again <= {*read[5:]}, "the last one, and what was asked for ahead of it"
    assert decoded(server.url, folder, out) == decoded(folder, folder, index=False)


def test_an_index_of_a_part_keeps_the_rows_of_other_files(folder: Path, tmp_path: Path) -> None:
    paths, cache = catalog_of(folder, folder).paths, str(tmp_path / "cache")
    for part in (paths[:2], paths[2:4]):
        make_index(vl.Catalog(part, root=folder), processes=1, cache=cache)
    storage = open_storage(folder)
    assert {*DatasetIndex(None, storage, None, index_software()).paths()} == {*paths[:4]}
    (folder / paths[0]).unlink()
    assert make_index(vl.Catalog(paths[3:4], root=folder), processes=1, cache=cache).files == 3


def test_a_row_is_found_by_its_whole_path_below_the_root(folder: Path, tmp_path: Path) -> None:
    """Files that are alike to the last bit have one version, if they were copied together."""
    (folder / "deeper/jump").mkdir(parents=True)
    for name in (f"deeper/{LONG}", "deeper/jump/other.avi"):
        shutil.copy2(folder / LONG, folder / name)
    file = open_storage(folder).resolve(LONG)
    for root, index, has in (
        (folder, None, {LONG}), (folder, tmp_path / "elsewhere", {LONG}),
        (tmp_path, folder / NAME, {f"set/{LONG}"}),
        (tmp_path, tmp_path / "elsewhere", {f"set/{LONG}"}),
        (folder / "jump", folder / NAME, {"long.avi"}),
    ):  # fmt: skip
        for out in (None, str(tmp_path / "elsewhere")):
            make_index(vl.Catalog([LONG, OTHER], root=folder), out, processes=1)
        with sqlite3.connect(folder / NAME) as opened:
            rows = opened.execute("SELECT * FROM indexes").fetchall()
        opened.close()
        assert len(rows) == 3
        storage = open_storage(root)
        found = DatasetIndex(str(index) if index else None, storage, None, index_software())
        begins = "set/" if root == tmp_path else ""
        for path in (
            f"{begins}{OTHER}", f"{begins}deeper/{LONG}", f"{begins}deeper/jump/other.avi", *has,
            f"{begins}other/{LONG}", f"other/{begins}{LONG}",
        ):  # fmt: skip
            row = found.find(path, file, VideoIndex.from_bytes, lambda _: None, wait=True)
            assert (row is not None) == (path in has), (root, index, path)


def test_nothing_is_written_through_a_link_beside_the_videos(folder: Path, tmp_path: Path) -> None:
    guessed = (f"{NAME}.{os.getpid()}.new", f".{NAME}.unfinished", f"{NAME}-journal")
    for name in guessed:
        (folder / name).symlink_to(tmp_path / "outside")
    made(folder, folder)
    (folder / NAME).rename(tmp_path / "index")
    (folder / NAME).symlink_to(tmp_path / "outside")
    made(folder, folder)
    assert not (tmp_path / "outside").exists()
    assert (folder / NAME).read_bytes() == (tmp_path / "index").read_bytes()


# An index that is wrong


def test_an_index_that_would_fill_the_disk_of_a_host_is_not_fetched(
    folder: Path, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    made(server.url, folder, folder / NAME)
    monkeypatch.setattr("videoload.storage.dataset_index._MOST_BYTES", 4000)
    assert decoded(server.url, folder) == decoded(folder, folder, index=False)
    assert sum(sent for name, sent in server.requests if name == NAME) <= 10
    assert any(NAME in message for message in caplog.messages)


def test_what_was_fetched_and_is_no_index_goes(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    (folder / NAME).write_bytes(b"<html>what?</html>")
    cache = tmp_path / "host"
    Decoder(server.url, folders=CacheDirectories(str(cache))).videos.info(LONG)
    kept = sum(file.stat().st_size == len("<html>what?</html>") for file in cache.iterdir())
    assert (kept, any(file.suffix == ".unfinished" for file in cache.iterdir())) == (0, False)


def is_refused(index: VideoIndex, size: int) -> bool:
    try:
        index.check(size)
    except ValueError:
        return True
    return False


def test_a_forged_row_leads_to_no_memory_and_no_place_outside_its_file(folder: Path) -> None:
    decoder, storage = Decoder(folder, folders=CacheDirectories(None)), open_storage(folder)
    for path in catalog_of(folder, folder).paths:
        index, size = decoder.videos.index(path), storage.resolve(path).size
        index.check(size)
        order, info, huge = index.order, index.info, np.array([1 << 40])
        starts = [
            np.array([row])
            for row in ((1 << 40, 0, 0, 0), (-2, 0, 0, 0), (0, 1 << 40, 0, 0), (0, 0, 0, 1 << 60))
        ]
        orders = [
            FrameTable(1 << 40, order.starts, order.ordinals, order.sums),
            FrameTable(0, order.starts, order.ordinals, order.sums),
            FrameTable(order.frames, order.starts, huge, order.sums),
            FrameTable(order.frames, order.starts, order.ordinals, np.zeros(order.frames + 1, int)),
            FrameTable(order.frames, order.starts, order.ordinals, order.sums, huge),
            *(FrameTable(order.frames, each, order.ordinals, order.sums) for each in starts),
        ]  # fmt: skip
        forged = [index._replace(order=each) for each in orders]
        infos: list[dict[str, Any]] = [
            {"width": 0}, {"width": 1 << 40}, {"height": 1 << 40}, {"quarter_turns": 1 << 40},
            {"quarter_turns": -1}, {"cut": (-1, 0, 0, 0)}, {"cut": (1 << 40, 0, 0, 0)},
            {"pixel_aspect_ratio": Fraction(1 << 40)}, {"pixel_aspect_ratio": Fraction(0)},
            {"fps": Fraction(-1)},
            {"times": array("d", [0.0] * (order.frames + 1))},
            {"times": array("d", [math.nan] * order.frames)}, {"late": Fraction(1 << 60)},
            {"late": Fraction(-1)}, {"begin_stream_s": Fraction(-(1 << 60))},
        ]  # fmt: skip
        forged += [index._replace(info=info._replace(**each)) for each in infos]
        forged += [index._replace(positions=huge), index._replace(opening=[(1 << 40, 0)])]
        if placed := index.placed:
            changes: list[dict[str, Any]] = [
                {"sizes": np.full(len(placed.sizes), 1 << 40)},
                {"sizes": -placed.sizes.astype(int) - 1}, {"stream": 1 << 40}, {"stream": -1},
                {"positions": np.full(len(placed.sizes), size)}, {"codec": "none"},
                {"positions": np.zeros(len(placed.sizes), int)},
                {"parameters": {"width": "wide"}},
            ]  # fmt: skip
            forged += [index._replace(placed=placed._replace(**each)) for each in changes]
        for number, each in enumerate(forged):
            assert is_refused(each, size), f"{path}: {number}"


def _another_file(index: Path, folder: Path) -> None:
    for path, other in ((LONG, OTHER), ("jump/palette.avi", "run/wide.avi")):
        old = (folder / path).stat()
        data = (folder / other).read_bytes()[: old.st_size].ljust(old.st_size, b"\0")
        (folder / path).write_bytes(data)
        os.utime(folder / path, ns=(old.st_atime_ns, old.st_mtime_ns + 1))


def _rows_changed(index: Path, folder: Path) -> None:
    with sqlite3.connect(index) as opened:
        rows = opened.execute("SELECT * FROM indexes WHERE path != ?", (b"",)).fetchall()
        for (path, *_), (*_, packed) in zip(rows, [*rows[1:], rows[0]], strict=True):
            opened.execute("UPDATE indexes SET packed = ? WHERE path = ?", (packed, path))
    opened.close()


def _other_software(index: Path, folder: Path) -> None:
    with sqlite3.connect(index) as opened:
        opened.execute("UPDATE indexes SET packed = ? WHERE path = ?", (b"av 1, code 2", b""))
    opened.close()


def _another_schema(index: Path, folder: Path) -> None:
    with sqlite3.connect(index) as opened:
        opened.execute("ALTER TABLE indexes RENAME TO rows")
        opened.execute("CREATE VIEW indexes AS SELECT * FROM rows, rows AS others")
    opened.close()


def _cut(index: Path, folder: Path) -> None:
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])


def _text(index: Path, folder: Path) -> None:
    index.write_text("<html>what?</html>")


def _empty(index: Path, folder: Path) -> None:
    index.write_bytes(b"")


def _a_link_that_leads_out(index: Path, folder: Path) -> None:
    index.rename(folder.parent / "outside")
    index.symlink_to(folder.parent / "outside")


SPOILT = [
    _another_file, _text, _empty, _a_link_that_leads_out,
    _rows_changed, _other_software, _another_schema, _cut,
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "spoil"),
    [*product(["folder"], SPOILT), *rest_nightly(product(["server"], SPOILT), 4)],
)
def test_a_wrong_index_changes_nothing_and_is_named(
    where: str, spoil: Callable[[Path, Path], None], folder: Path, server: ObjectServer,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    root = folder if where == "folder" else server.url
    made(root, folder, folder / NAME)
    spoil(folder / NAME, folder)
    caplog.clear()
    right = decoded(folder, folder, index=False)
    assert not caplog.messages
    assert decoded(root, folder) == right
    told = [message for message in caplog.messages if NAME in message]
    assert len(told) <= 2
    assert told or (spoil, where) in ((_a_link_that_leads_out, "server"), (_empty, "server"))


def test_flipped_bits_of_an_index_change_nothing(folder: Path) -> None:
    made(folder, folder)
    right, whole, draw = (
        decoded(folder, folder, False),
        (folder / NAME).read_bytes(),
        random.Random(0),
    )
    for _ in range(either(30, 300)):
        changed = bytearray(whole)
        for _ in range(draw.choice((1, 1, 9, 200))):
            changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (folder / NAME).write_bytes(changed)
        assert decoded(folder, folder) == right


def test_an_object_that_is_replaced_is_read_as_it_is_now(
    folder: Path, server: ObjectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the same size, or gone; before a clip, while it is read, and where files are counted."""
    made(server.url, folder, folder / NAME)
    decoder, out = Decoder(server.url), np.zeros((1, *SPEC.shape), np.uint8)
    decoder.prefetch(LONG, one_clip(SPEC), [Clip(0)])
    run = decoder.start(LONG, one_clip(SPEC), [Clip(0)], out)
    size = (folder / LONG).stat().st_size
    other = make_avi(tmp_path / "other.avi", frames=44, seed=7).read_bytes()
    (folder / LONG).write_bytes(other.ljust(size, b"\0"))
    right = Decoder(folder)
    run.finish(lambda: None)
    for reading in (decoder, Decoder(server.url)):
        reading.begin()
        assert reading.videos.info(LONG).num_frames == 44
        wanted = np.zeros((1, *SPEC.shape), np.uint8)
        right.decode(LONG, SPEC, [Clip(1)], wanted)
        reading.decode(LONG, SPEC, [Clip(1)], out)
        assert np.array_equal(out, wanted)
    assert any(NAME in message and LONG in message for message in caplog.messages)
    (folder / OTHER).unlink()
    with pytest.raises(VideoError, match=OTHER):
        decoder.videos.info(OTHER)


@pytest.mark.parametrize("status", [403, 404, 410, 500, 0])
def test_a_server_that_does_not_give_an_index_has_none(
    status: int, folder: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tell nobody who may not list them that an object is missing, some (0) answer nobody."""
    monkeypatch.setattr("videoload.storage.dataset_index.OBJECT_S", 0.2)
    server.statuses[NAME] = status
    assert decoded(server.url, folder) == decoded(folder, folder, index=False)


@pytest.mark.parametrize("status", [0, 503])
def test_an_index_that_was_late_once_is_waited_for_in_the_next_training(
    status: int, folder: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(server.url, folder, folder / NAME)
    whole = (folder / NAME).read_bytes()
    with sqlite3.connect(folder / NAME) as opened:
        opened.execute("DELETE FROM indexes WHERE path = ?", (LONG.encode(),))
    opened.close()
    monkeypatch.setattr("videoload.storage.stores.SILENCE_S", 0.5)
    monkeypatch.setattr("videoload.storage.dataset_index.OBJECT_S", 0.1)
    storage, server.statuses[NAME] = open_storage(server.url), status
    index = DatasetIndex(None, storage, None, index_software())
    assert index.version(LONG, wait=True) is None
    server.statuses.clear()
    wait_until(lambda: index.version(OTHER, wait=True), 30 * SECOND)
    monkeypatch.undo()
    (folder / NAME).write_bytes(whole)
    server.latency_s = 0.2
    index.begin()
    assert index.version(LONG, wait=True)


def test_damaged_files_give_what_they_give_without_an_index(tmp_path: Path) -> None:
    """The row of a whole file is not used for one in which a bit is another."""
    folder = tmp_path / "set"
    folder.mkdir()
    for number, (codec, b_frames) in enumerate((("mpeg4", 0), ("mpeg4", 2), ("libx264", 2))):
        make_avi(folder / f"{number}.avi", frames=40, codec=codec, b_frames=b_frames)
    made(folder, folder)
    for file in sorted(folder.glob("*.avi")):
        whole, old = file.read_bytes(), file.stat()
        for seed in range(either(6, 150)):
            file.write_bytes(mutant(whole, seed))
            os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
            assert decoded(folder, folder) == decoded(folder, folder, index=False)
        file.write_bytes(whole)
