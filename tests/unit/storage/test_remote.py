"""Files below a URL give the same index, fingerprints and frames as in a folder."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.long import make as make_long
from benchmarks.object_server import ObjectServer
from tests.support.servers import bucket
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.windows import Request
from videoload.decoding.decoder import Decoder
from videoload.decoding.prepared import ShortVideoError
from videoload.errors import StorageError, VideoError
from videoload.storage import fetching, stores
from videoload.storage.file_cache import FileCache
from videoload.storage.keep import Folders, Keep
from videoload.storage.paths import SEPARATOR
from videoload.storage.remote import RemoteStorage
from videoload.storage.remote_file import RemoteFile
from videoload.storage.roots import open_storage

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")


@pytest.fixture(scope="module")
def bad(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bad videos."""
    whole = (videos.root / "jump/long.avi").read_bytes()
    bad = tmp_path_factory.mktemp("bad")
    (bad / "cut.avi").write_bytes(whole[: len(whole) // 2])
    (bad / "damaged.avi").write_bytes(whole[:40_000] + bytes(500) + whole[40_500:])
    (bad / "empty.avi").touch()
    (bad / "text.avi").write_bytes(b"no video at all " * 100)
    make_avi(bad / "palette.avi", frames=20, codec="cinepak", pixels="rgb24", size=(32, 48))
    return bad


@pytest.fixture
def folder(videos: Videos, bad: Path, tmp_path: Path) -> Path:
    """Good videos, and bad ones."""
    shutil.copytree(videos.root, tmp_path / "data")
    shutil.copytree(bad, tmp_path / "data/bad")
    return tmp_path / "data"


@pytest.fixture
def server(folder: Path) -> Iterator[ObjectServer]:
    with ObjectServer(folder) as made:
        yield made


def decoded(decoder: Decoder, path: str, seed: int) -> tuple[bytes, bytes] | str:
    """Frames and pixels of a clip, or the error."""
    out: npt.NDArray[np.uint8] = np.zeros((1, *SPEC.shape), np.uint8)
    try:
        return decoder.decode(path, SPEC, [Request(seed)], out).tobytes(), out.tobytes()
    except VideoError as error:
        return str(error)


def same(here: Decoder, there: Decoder, folder: Path) -> list[str]:
    """Compare all files, twice. Returns the good ones."""
    good = []
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.avi"))]
    for seed, path in enumerate([*paths, *paths]):
        found = decoded(here, path, seed)
        assert decoded(there, path, seed) == found, path
        assert there.fingerprint(path) == here.fingerprint(path)
        if not isinstance(found, str):
            good.append(path)
            a, b = here.index(path), there.index(path)
            assert (a.info, a.order.is_proven) == (b.info, b.order.is_proven)
            assert np.array_equal(a.order.starts, b.order.starts)
            for x, y in ((a.order.ordinals, b.order.ordinals), (a.order.sums, b.order.sums)):
                assert (x is None and y is None) or np.array_equal(x, y)  # type: ignore[arg-type]
    return good


@pytest.mark.parametrize("parts", [True, False])
def test_a_web_server_gives_what_the_folder_gives(
    parts: bool, folder: Path, server: ObjectServer
) -> None:
    server.parts = parts
    here = Decoder(folder)
    good = same(here, Decoder(server.url), folder)
    assert {"bad/palette.avi", "bad/damaged.avi", "walk/b_frames.avi"} <= set(good)
    assert any(not here.index(path).order.is_proven for path in good)


def test_a_server_of_weak_tags_gives_what_the_folder_gives(
    folder: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of files that come in more than one part."""
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    server.weak = True
    assert same(Decoder(folder), Decoder(server.url), folder)


@pytest.mark.parametrize(
    ("status", "why"),
    [(404, "No such file or directory"), (410, "410 Gone"), (403, "403 Forbidden")],
)
def test_a_file_that_is_refused_alone_is_a_bad_video(
    status: int, why: str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its first part was given."""
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    decoder, path = Decoder(server.url), "jump/long.avi"
    decoder.fingerprint("walk/gop12.avi")
    storage_of(decoder).resolve(path)
    server.statuses[path] = status
    decoder.fingerprint("walk/b_frames.avi")
    for _ in range(2):
        told = decoded(decoder, path, 0)
        assert isinstance(told, str)
        assert (path in told, why in told) == (True, True)


def keep_in(folder: Path) -> Keep:
    keep = Keep.of(folder, None)
    assert keep is not None
    return keep


def storage_of(decoder: Decoder) -> RemoteStorage:
    assert isinstance(decoder._storage, RemoteStorage)
    return decoder._storage


def all_kept(decoder: Decoder, paths: Sequence[str]) -> None:
    """Wait until these files are kept."""
    storage = storage_of(decoder)
    for path in paths:
        wait_until(lambda path=path: not storage.resolve(path).fetches, 30 * SECOND, path)  # type: ignore[misc]


def test_kept_files_give_what_the_folder_gives(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    """Kept files are not asked for again; another process or training asks for one byte of each,
    to see whether it has changed."""
    here, keep = Decoder(folder), keep_in(tmp_path / "disk")
    first = Decoder(server.url, folders=Folders(keep=keep))
    good = same(here, first, folder)
    all_kept(first, good)
    server.requests.clear()
    assert same(here, first, folder) == good
    assert not {path for path, _ in server.requests} & set(good)
    first.begin()
    for decoder in (first, Decoder(server.url, folders=Folders(keep=keep))):
        server.requests.clear()
        for path in good:
            decoder.expect(path, SPEC, [Request(0)])
        assert same(here, decoder, folder) == good
        asked = [(path, sent) for path, sent in server.requests if path in good]
        assert sorted(asked) == sorted((path, 1) for path in set(good))


def test_another_training_finds_the_files_as_they_are_now(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    """Also a file that the training before had asked for ahead and never used."""
    path, keep = "jump/long.avi", keep_in(tmp_path / "disk")
    decoder = Decoder(server.url, folders=Folders(keep=keep))
    decoder.expect(path, SPEC, [Request(0)])
    wait_until(lambda: server.requests, 30 * SECOND)
    shutil.copy(folder / "walk/gop12.avi", folder / path)
    decoder.begin()
    now = decoded(Decoder(folder), path, 0)
    assert decoded(decoder, path, 0) == now
    assert decoded(Decoder(server.url, folders=Folders(keep=keep)), path, 0) == now


def test_two_buckets_of_one_name_can_share_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keep = "jump/long.avi", keep_in(tmp_path / "disk")
    shutil.copytree(folder, tmp_path / "other")
    shutil.copy(folder / "walk/gop12.avi", tmp_path / "other" / path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    decoders = []
    with (
        ObjectServer(folder, bucket="clips") as one,
        ObjectServer(tmp_path / "other", bucket="clips") as two,
    ):
        for server in (one, two):
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
            decoders.append(Decoder("s3://clips", folders=Folders(keep=keep)))
            known = decoded(Decoder(server.folder), path, 0)
            assert decoded(decoders[-1], path, 0) == known
            all_kept(decoders[-1], [path])
            assert decoded(decoders[-1], path, 0) == known


def test_nothing_is_kept_of_files_whose_server_tells_no_versions(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Neither the file nor its frames: another one of the same size may take its place."""
    monkeypatch.setattr(fetching, "_tag", lambda meta: f" {meta['size']}")
    path, frames = "jump/long.avi", tmp_path / "frames"
    folders = Folders(keep=keep_in(tmp_path / "disk"), frame_store=keep_in(frames))
    decoder = Decoder(server.url, folders=folders)
    for seed in range(2):
        assert not isinstance(decoded(decoder, path, seed), str)
    assert storage_of(decoder).resolve(path).fetches
    assert not list(frames.iterdir())
    assert "keeps nothing of files whose server tells no ETag or time of change" in caplog.text
    other = Decoder(server.url)
    other.index(path)
    identities = {each._storage.resolve(path).identity for each in (decoder, other)}
    assert len(identities) == 2


def test_a_kept_video_that_is_too_short_is_not_fetched_again(
    server: ObjectServer, tmp_path: Path
) -> None:
    path, keep = "jump/one_frame.avi", keep_in(tmp_path / "disk")
    decoder, long = Decoder(server.url, folders=Folders(keep=keep)), replace(SPEC, short="drop")
    all_kept(decoder, [path])
    for other in (decoder, Decoder(server.url, folders=Folders(keep=keep))):
        server.requests.clear()
        with pytest.raises(ShortVideoError):
            other.decode(path, long, [Request(0)], np.zeros((1, *SPEC.shape), np.uint8))
        assert set(server.requests) <= {(path, 1)}


def test_a_kept_file_that_is_deleted_while_the_storage_is_down_is_no_bad_video(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another clip has noticed by then."""
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.2)
    path = "jump/long.avi"
    decoder = Decoder(server.url, folders=Folders(keep=keep_in(tmp_path / "disk")))
    assert not isinstance(decoded(decoder, path, 1), str)
    all_kept(decoder, [path])
    out = np.zeros((1, *SPEC.shape), np.uint8)
    prepared = decoder.prepare(path, SPEC, [Request(0)], out)
    decoder.rest()
    shutil.rmtree(tmp_path / "disk")
    decoder.expect(path, SPEC, [Request(0)])
    server.fault = 503
    with pytest.raises(StorageError, match=r"does not answer for 0\.2 s: 503"):
        prepared.decode(lambda: None)
    server.fault = None
    prepared.decode(lambda: None)
    assert out.tobytes() == decoded(Decoder(server.folder), path, 0)[1]


def test_a_changed_file_and_a_deleted_kept_file_are_fetched_again(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    path, here, disk = "jump/long.avi", Decoder(folder), tmp_path / "disk"
    decoder = Decoder(server.url, folders=Folders(keep=keep_in(disk)))
    known = decoded(here, path, 0)
    assert decoded(decoder, path, 0) == known
    all_kept(decoder, [path])
    out = np.zeros((1, *SPEC.shape), np.uint8)
    prepared = decoder.prepare(path, SPEC, [Request(1)], out)
    shutil.rmtree(disk)
    decoder.rest()
    prepared.decode(lambda: None)
    assert out.tobytes() == decoded(here, path, 1)[1]
    all_kept(decoder, [path])
    shutil.copy(folder / "walk/gop12.avi", folder / path)
    assert decoded(decoder, path, 0) == known, "a training asks for the version only once"
    now = decoded(Decoder(folder), path, 0)
    later = Decoder(server.url, folders=Folders(keep=keep_in(disk)))
    assert decoded(later, path, 0) == now
    all_kept(later, [path])
    storage_of(decoder)._at_hand.clear()  # bytes in memory are still those of the old version
    decoder.rest()
    assert decoded(decoder, path, 0) == now, (
        "the first training finds the new file in the place of the old one"
    )


def test_a_kept_file_that_is_damaged_makes_no_bad_video(
    server: ObjectServer, tmp_path: Path
) -> None:
    path, keep = "jump/long.avi", keep_in(tmp_path / "disk")
    decoder = Decoder(server.url, folders=Folders(keep=keep))
    known = decoded(decoder, path, 0)
    assert not isinstance(known, str)
    all_kept(decoder, [path])
    storage = storage_of(decoder)
    kept = Path(storage.resolve(path).path)
    told = kept.stat()
    kept.write_bytes(bytes(told.st_size))  # the disk has lost the bytes
    os.utime(kept, ns=(told.st_atime_ns, told.st_mtime_ns))
    other = Decoder(server.url, folders=Folders(keep=keep))
    assert decoded(other, path, 0) == known
    all_kept(other, [path])
    assert kept.read_bytes() == (server.folder / path).read_bytes()


def test_the_rest_of_a_longer_file_is_fetched_later_to_be_kept(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    for module in ("remote", "content"):
        monkeypatch.setattr(f"videoload.storage.{module}.SMALL_BYTES", 30_000)
    decoder = Decoder(server.url, folders=Folders(keep=keep_in(tmp_path / "disk")))
    assert decoded(decoder, "jump/long.avi", 0) == decoded(
        Decoder(server.folder), "jump/long.avi", 0
    )
    before, whole = server.bytes_sent, (server.folder / "jump/long.avi").stat().st_size
    all_kept(decoder, ["jump/long.avi"])
    assert whole <= server.bytes_sent < whole + before
    assert decoded(decoder, "jump/long.avi", 1) == decoded(
        Decoder(server.folder), "jump/long.avi", 1
    )


def test_a_file_that_waits_to_be_written_is_not_fetched_again(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.remote.SMALL_BYTES", 30_000)
    may_write, write = threading.Event(), FileCache._write
    monkeypatch.setattr(
        FileCache, "_write", lambda *given: may_write.wait(30 * SECOND) and write(*given)
    )
    decoder = Decoder(server.url, folders=Folders(keep=keep_in(tmp_path / "disk")))
    storage = storage_of(decoder)
    disk = storage._cache
    assert disk is not None
    decoded(decoder, "jump/long.avi", 0)
    wait_until(lambda: disk.awaits("jump/long.avi") and not storage._whole, 30 * SECOND)
    sent = server.bytes_sent
    for _ in range(3):
        assert storage.resolve("jump/long.avi").fetches
        wait_until(lambda: not storage._whole, 30 * SECOND)
    may_write.set()
    all_kept(decoder, ["jump/long.avi"])
    assert server.bytes_sent == sent


@pytest.mark.parametrize(
    ("codec", "container"), [("mpeg4", "avi"), ("libx264", "avi"), ("mpeg4", "matroska")]
)
def test_once_the_index_is_known_only_the_pictures_of_the_clip_are_fetched(
    codec: str, container: str, tmp_path: Path
) -> None:
    """And what FFmpeg needs to open the file, if it does."""
    path = make_avi(
        tmp_path / "a.avi", frames=400, codec=codec, size=(144, 192), container_format=container
    )
    size = path.stat().st_size
    here = Decoder(tmp_path)
    with ObjectServer(tmp_path) as server:
        there = Decoder(server.url)
        sent = []
        for seed in range(4):
            before = server.bytes_sent
            there.expect("a.avi", SPEC, [Request(seed)])
            assert decoded(there, "a.avi", seed) == decoded(here, "a.avi", seed)
            sent.append(server.bytes_sent - before)
            file = storage_of(there).resolve("a.avi")
            assert isinstance(file, RemoteFile)
            file.drop()
            there.rest()
    assert sent[0] == size
    assert 0 < max(sent[1:]) < 0.3 * size


@pytest.mark.parametrize("memory", [32 << 20, 20_000])
def test_a_file_that_is_sent_whole_is_read_once_and_the_others_in_parts(
    memory: int, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not fit into memory lies in a temporary file."""
    for name in ("remote._FIRST_BYTES", "remote.SMALL_BYTES", "content.SMALL_BYTES"):
        monkeypatch.setattr(f"videoload.storage.{name}", 9000)
    monkeypatch.setattr("videoload.storage.remote_file.FILE_BYTES", memory)
    here, there, path = Decoder(server.folder), Decoder(server.url), "jump/long.avi"
    server.parts = False
    storage_of(there).resolve(path)
    server.parts = True
    for seed in range(4):
        assert decoded(there, path, seed) == decoded(here, path, seed)
        assert decoded(there, "run/h264.avi", seed) == decoded(here, "run/h264.avi", seed)
    asked = [head for head in server.heads if path.encode() in head]
    assert len(asked) == 3, "whether it comes in parts, its beginning, all of it"
    assert [b"range:" in head for head in asked] == [True, False, False]
    assert all(b"range:" in head for head in server.heads if b"h264" in head)


def test_no_more_is_asked_for_ahead_than_the_memory_limit_allows(tmp_path: Path) -> None:
    with ObjectServer(tmp_path) as server:
        server.fault = "silence"
        storage = RemoteStorage(server.url)
        for number in range(200):
            storage.expect(f"{number}.avi")
        assert storage.is_busy
        assert len(storage._coming) == 64  # a megabyte each
        wait_until(lambda: len(server.requests) == 8, 30 * SECOND)


def test_nothing_more_is_fetched_for_a_folder_that_is_full(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    for module in ("remote", "content"):
        monkeypatch.setattr(f"videoload.storage.{module}.SMALL_BYTES", 9000)
    keep = Keep.of(tmp_path / "disk", 1e-6)
    decoder, plain = Decoder(server.url, folders=Folders(keep=keep)), Decoder(server.url)
    paths = [path for path in sorted(server.folder.glob("*/*.avi")) if path.parent.name != "bad"]
    names = [path.relative_to(server.folder).as_posix() for path in paths]
    storage = storage_of(decoder)
    assert storage._cache is not None
    decoded(decoder, names[0], 0)
    wait_until(lambda: not (storage._cache and storage._cache.has_room), 30 * SECOND)
    wait_until(lambda: not storage._whole, 30 * SECOND)
    sent = []
    for other in (plain, decoder):
        server.requests.clear()
        for name in names[1:]:
            decoded(other, name, 0)
        wait_until(lambda: not storage._whole, 30 * SECOND)
        sent.append(server.bytes_sent)
    assert abs(sent[1] - sent[0]) < 0.01 * sent[0]  # where pieces end, FFmpeg reads a little more


@pytest.mark.slow
def test_a_bucket_gives_what_the_folder_gives(
    folder: Path, monkeypatch: pytest.MonkeyPatch, videos: Videos
) -> None:
    with bucket(folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        there = Decoder("s3://clips/data")
        assert same(Decoder(folder), there, folder)
        with pytest.raises(
            VideoError, match=r"gone\.avi: cannot be opened: No such file or direct"
        ):
            there.index("gone.avi")
        catalog = Catalog.from_folder("s3://clips/data")
        classes = [*videos.catalog.classes]
        assert [name for name in catalog.classes if name != "bad"] == classes
        assert [v.path for v in catalog if not v.path.startswith("bad/")] == [
            v.path for v in videos.catalog
        ]
        train, held_back = Catalog.train_and_test("s3://clips/data")
        assert (train.root, len(train) + len(held_back)) == (catalog.root, len(catalog))


def test_a_path_leads_only_below_the_root(server: ObjectServer) -> None:
    storage = open_storage(f"{server.url}/jump")
    assert storage.resolve("./long.avi").size > 0
    for path in ("../run/mjpeg.avi", "/etc/passwd", "..", "a/../../run/mjpeg.avi",
                 f"{server.url}/run/mjpeg.avi", "s3://other/a.avi"):  # fmt: skip
        with pytest.raises(VideoError, match="lies outside of the root"):
            storage.resolve(path)
    for path in ("a\nb", "\udc80"):
        with pytest.raises(VideoError, match="cannot be a file name"):
            storage.resolve(path)
    for path in ("%2e%2e/run/mjpeg.avi", "long.avi?x", "long.avi#x"):
        with pytest.raises(VideoError, match="No such file"):
            storage.resolve(path)
    assert {path.partition("/")[0] for path, _ in server.requests} == {"jump"}


def test_expected_files_are_asked_for_once_before_they_are_needed(server: ObjectServer) -> None:
    decoder = Decoder(server.url)
    assert decoder.fetches
    asked = ["jump/long.avi", "walk/gop12.avi", "run/wide.avi"]
    for path in asked:
        decoder.expect(path, SPEC, [Request(0)])
        decoder.expect(path, SPEC, [Request(0)])
    decoder.expect("../outside", SPEC, [Request(0)])  # `decode` raises the error
    for path in reversed(asked):
        assert not isinstance(decoded(decoder, path, 0), str)
    assert sorted(path for path, _ in server.requests) == sorted(asked)


def test_all_parts_of_an_expected_sample_are_asked_for_at_once(tmp_path: Path) -> None:
    """First their beginnings, and once their indexes are known the pictures that they show."""
    names = {"rgb": "rgb.avi", "ir": "ir.avi", "depth": "depth.avi"}
    made = make_avi(tmp_path / "rgb.avi", frames=400, size=(144, 192))
    for name in ("ir.avi", "depth.avi"):
        shutil.copy(made, tmp_path / name)
    size = 3 * made.stat().st_size
    spec = SampleSpec({name: replace(SPEC, short="loop") for name in names})
    path = SEPARATOR.join(names.values())
    here, out, wanted = Decoder(tmp_path), *np.zeros((2, 1, spec.clip_bytes), np.uint8)
    with ObjectServer(tmp_path) as server:
        there = Decoder(server.url)
        there.expect(path, spec, [Request(0)])
        wait_until(lambda: len(server.requests) == 3, 30 * SECOND)
        for seed in range(4):
            before = server.bytes_sent
            there.expect(path, spec, [Request(seed)])
            frames = there.decode(path, spec, [Request(seed)], out)
            assert frames.tolist() == here.decode(path, spec, [Request(seed)], wanted).tolist()
            assert np.array_equal(out, wanted)
            for name in names.values():
                file = storage_of(there).resolve(name)
                assert isinstance(file, RemoteFile)
                file.drop()
            there.rest()
            if seed:  # by now, the indexes are known
                assert 0 < server.bytes_sent - before < 0.3 * size
        server.requests.clear()
        there.expect(path, spec, [Request(9)])
        wait_until(
            lambda: {asked for asked, _ in server.requests} == {*names.values()}, 30 * SECOND
        )


def test_a_changed_file_is_read_as_it_is_now(folder: Path, server: ObjectServer) -> None:
    decoder = Decoder(server.url)
    path = "jump/long.avi"
    assert not isinstance(decoded(decoder, path, 0), str)
    shutil.copy(folder / "walk/gop12.avi", folder / path)
    storage = storage_of(decoder)
    storage._at_hand.clear()  # bytes in memory are still those of the old version
    assert decoded(decoder, path, 3) == decoded(Decoder(folder), path, 3)


@pytest.mark.parametrize("path", ["jump/long.avi", "bad/palette.avi"])
def test_a_server_that_does_not_answer_makes_no_bad_video(
    path: str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.2)
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    decoder = Decoder(server.url)
    decoder.expect(path, SPEC, [Request(0)])
    with pytest.raises(VideoError):
        decoder.index("gone.avi")  # by then, the first part is here
    server.fault = 503
    with pytest.raises(StorageError, match=r"does not answer for 0\.2 s: 503"):
        decoder.decode(path, SPEC, [Request(0)], np.zeros((1, *SPEC.shape), np.uint8))
    server.fault = None
    assert decoded(decoder, path, 0) == decoded(Decoder(server.folder), path, 0)


def test_a_file_that_changes_while_it_is_read_prints_no_traceback(
    folder: Path,
    server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("videoload.storage.remote._FIRST_BYTES", 9000)
    decoder = Decoder(server.url)
    path = "jump/long.avi"
    decoder.expect(path, SPEC, [Request(0)])
    with pytest.raises(VideoError):
        decoder.index("gone.avi")  # by then, the first part is here
    shutil.copy(folder / "walk/gop12.avi", folder / path)
    assert decoded(decoder, path, 0) == decoded(Decoder(folder), path, 0)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_long_file_is_read_through_once_and_then_only_what_clips_need(tmp_path: Path) -> None:
    work = make_long("mpeg4", tmp_path, 7200)
    path = Path(work.path(work.files[0])).name
    size = (tmp_path / path).stat().st_size
    with ObjectServer(tmp_path) as server:
        here, there = Decoder(tmp_path), Decoder(server.url)
        assert decoded(here, path, 0) == decoded(there, path, 0)
        assert server.bytes_sent < 1.1 * size
        first = server.bytes_sent
        assert decoded(here, path, 1) == decoded(there, path, 1)
        assert server.bytes_sent - first < 0.03 * size
        assert np.array_equal(here.index(path).order.starts, there.index(path).order.starts)
