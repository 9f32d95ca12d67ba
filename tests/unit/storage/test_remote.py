"""Files below a URL give what the same files in a folder give, whatever the server does."""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.long_file import make_long
from tests.support.object_server import ObjectServer
from tests.support.servers import KEYS, asked, bucket
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec, one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import StorageError, VideoError
from videoload.storage import stores
from videoload.storage.cache_directories import CacheDirectories, CacheDirectory
from videoload.storage.files import Storage, retry_if_replaced
from videoload.storage.paths import PIECE_SEPARATOR, SEPARATOR
from videoload.storage.roots import open_storage
from videoload.storage.small_files import read_small

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")
LONG, OTHER = "jump/long.avi", "walk/gop12.avi"


@pytest.fixture(scope="module")
def made(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good videos, and bad ones."""
    folder = tmp_path_factory.mktemp("made") / "data"
    shutil.copytree(videos.root, folder)
    whole, bad = (folder / LONG).read_bytes(), folder / "bad"
    bad.mkdir()
    (bad / "cut.avi").write_bytes(whole[: len(whole) // 2])
    (bad / "damaged.avi").write_bytes(whole[:40_000] + bytes(500) + whole[40_500:])
    (bad / "empty.avi").touch()
    (bad / "text.avi").write_bytes(b"no video at all " * 100)
    make_avi(bad / "palette.avi", frames=20, codec="cinepak", pixels="rgb24", size=(32, 48))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def server(folder: Path) -> Iterator[ObjectServer]:
    with ObjectServer(folder) as serving:
        yield serving


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests count as large: they come in several parts."""
    for name in ("remote.FIRST_BYTES", "content.SMALL_BYTES", "files.SMALL_BYTES"):
        monkeypatch.setattr(f"videoload.storage.{name}", 9000)
    monkeypatch.setattr("videoload.reading.index.FIRST_BYTES", 9000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(stores, "OBJECT_S", 0.03)


def reader(
    root: str | Path, file_cache: Path | None = None, file_cache_gb: float | None = None
) -> Decoder:
    return Decoder(
        root, folders=CacheDirectories(file_cache=CacheDirectory.of(file_cache, file_cache_gb))
    )


def decoded(decoder: Decoder, path: str, seed: int = 0) -> tuple[bytes, bytes] | str:
    """Frames and pixels of a clip, or the error."""
    out: npt.NDArray[np.uint8] = np.zeros((1, *SPEC.shape), np.uint8)
    try:
        return decoder.decode(path, SPEC, [Clip(seed)], out).tobytes(), out.tobytes()
    except VideoError as error:
        return str(error)


def same(here: Decoder, there: Decoder, folder: Path) -> list[str]:
    """Compare all files, twice. Returns the good ones."""
    good = set()
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.avi"))]
    for seed, path in enumerate([*paths, *paths]):
        found = decoded(here, path, seed)
        assert decoded(there, path, seed) == found, path
        assert there.fingerprint(path) == here.fingerprint(path)
        if not isinstance(found, str):
            good.add(path)
            a, b = (each.index(path)._replace(opening=()).to_bytes() for each in (here, there))
            assert a == b
    return sorted(good)


def pread(storage: Storage, path: str, length: int, at: int = 0) -> bytes:
    """The bytes of a file, as a worker waits for them."""

    def read() -> bytes:
        with storage.reading(path, lambda: None):
            file = storage.resolve(path)
            data = bytes(file.open().pread(length, at))
            file.check()
            return data

    return retry_if_replaced(path, read)


def all_kept(root: str, disk: Path, server: ObjectServer, paths: Sequence[str]) -> None:
    """Wait until nothing more than whether they have changed is asked of these files."""

    def are_kept() -> bool:
        server.requests.clear()
        storage = open_storage(root, CacheDirectory.of(disk, None))
        for path in paths:
            pread(storage, path, (server.folder / path).stat().st_size)
        return all(sent <= 1 for _, sent in asked(server))

    wait_until(are_kept, 30 * SECOND)


@pytest.mark.parametrize("weak", [False, True])
def test_a_web_server_gives_what_the_folder_gives(
    weak: bool, folder: Path, server: ObjectServer, request: pytest.FixtureRequest
) -> None:
    server.weak = weak
    if weak:
        request.getfixturevalue("in_parts")
    here = Decoder(folder)
    good = same(here, Decoder(server.url), folder)
    assert {"bad/palette.avi", "bad/damaged.avi", "walk/b_frames.avi"} <= set(good)
    assert any(not here.index(path).order.is_proven for path in good)


@pytest.mark.slow
def test_a_bucket_gives_what_the_folder_gives(
    folder: Path, monkeypatch: pytest.MonkeyPatch, videos: Videos
) -> None:
    with bucket(folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        there = Decoder("s3://clips/data")
        assert same(Decoder(folder), there, folder)
        with pytest.raises(VideoError, match=r"gone\.avi"):
            there.index("gone.avi")
        catalog = Catalog.from_folder("s3://clips/data")
        good = [video.path for video in catalog if not video.path.startswith("bad/")]
        assert good == [video.path for video in videos.catalog]
        assert [*catalog.classes] == sorted([*videos.catalog.classes, "bad"])
        train, held_back = Catalog.train_and_test("s3://clips/data")
        assert (train.root, len(train) + len(held_back)) == (catalog.root, len(catalog))


def test_a_path_leads_only_below_the_root(server: ObjectServer) -> None:
    storage = open_storage(f"{server.url}/jump")
    assert storage.resolve("./long.avi").size > 0
    for path in ("../run/mjpeg.avi", "/etc/passwd", "..", "a/../../run/mjpeg.avi", "a\nb", "\udc80",
                 f"{server.url}/run/mjpeg.avi", "s3://other/a.avi", "%2e%2e/run/mjpeg.avi",
                 "long.avi?x", "long.avi#x"):  # fmt: skip
        with pytest.raises(VideoError):
            storage.resolve(path)
    assert {path.partition("/")[0] for path, _ in server.requests} == {"jump"}


# What a server may do


@pytest.mark.parametrize("fault", [503, 403, "cut"])
def test_a_request_is_made_again_until_the_fault_has_passed(
    fault: int | str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it passes right after the first request: then others are given, and this one is."""
    storage, server.fault, answer = open_storage(server.url), fault, server.answer

    def passing(head: bytes) -> bytes | None:
        if server.requests:
            server.fault = None
        return answer(head)

    monkeypatch.setattr(server, "answer", passing)
    size, drawn = (server.folder / LONG).stat().st_size, random.getstate()
    with storage.reading(LONG, lambda: None):
        assert storage.resolve(LONG).size == size
    assert random.getstate() == drawn, "a training's own numbers"


@pytest.mark.parametrize("fault", [503, 403, 401, "cut", "silence"])
@pytest.mark.parametrize("path", [LONG, "bad/palette.avi"])
def test_a_server_that_does_not_answer_makes_no_bad_video_and_is_named(
    fault: int | str, path: str, server: ObjectServer, in_parts: None,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(stores, "SILENCE_S", 0.2)
    decoder = Decoder(server.url)
    decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
    with pytest.raises(VideoError):
        decoder.index("gone.avi")  # by then, the first part is here
    server.fault = fault
    with monkeypatch.context() as patch:
        patch.setattr(stores, "GIVE_UP_S", 0.3)
        patch.setattr(stores, "TELL_S", 0.05)
        with pytest.raises(StorageError) as told:
            decoded(decoder, path)
    assert server.url in str(told.value)
    assert isinstance(fault, str) or str(fault) in str(told.value)
    assert decoder.storage_says.startswith(server.url)
    assert sum(server.url in message for message in caplog.messages) == 1
    server.fault = None
    assert decoded(decoder, path) == decoded(Decoder(server.folder), path)


ANSWERS = [
    503, 404, b"what?\r\n\r\n", 403, 401, 500, 410, 307, b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-99/1152921504606846976\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("is_known", "answer"),
    [*product([True], ANSWERS), *rest_nightly(product([False], ANSWERS), 3)],
)
def test_a_file_that_alone_cannot_be_read_is_a_bad_video(
    is_known: bool, answer: int | bytes, server: ObjectServer, impatient: None, in_parts: None
) -> None:
    """Also if its first part was given."""
    decoder = Decoder(server.url)
    decoder.fingerprint(OTHER)
    if is_known:
        decoder.version(LONG)
    server.statuses[LONG] = answer
    for _ in range(2):
        told = decoded(decoder, LONG)
        assert isinstance(told, str)
        assert LONG in told
    server.fault = 403
    with pytest.raises(StorageError, match="403"):
        decoded(decoder, LONG)


def test_an_answer_may_take_any_time_as_long_as_bytes_come(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also longer than a server may be silent: it is not asked again meanwhile."""
    monkeypatch.setattr(stores, "SILENCE_S", 0.4 * SECOND)
    data = os.urandom(1 << 20)
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate = len(data) / (1.2 * SECOND)
    assert pread(open_storage(server.url), "b.avi", len(data)) == data
    assert len(asked(server)) < 3  # a busy machine may be silent once itself


def test_what_came_before_a_silence_is_kept_and_only_the_rest_is_asked_for(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SILENCE_S", 0.5 * SECOND)
    data = os.urandom(500_000)
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate, server.silent_after = 3e6, 200_000
    assert pread(open_storage(server.url), "b.avi", len(data)) == data
    first, *_, last = asked(server)
    assert first == ("b.avi", len(data))
    assert last[1] <= len(data) - 100_000


def test_no_more_is_asked_for_ahead_than_memory_allows(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SILENCE_S", 0.5 * SECOND)
    server.fault, storage = "silence", open_storage(server.url)
    for number in range(200):
        storage.prefetch_header(f"{number}.avi")
    wait_until(lambda: len(set(server.requests)) == 16, 30 * SECOND)
    server.fault = 404
    with pytest.raises(VideoError):
        storage.resolve("150.avi")
    wait_until(lambda: len(set(server.requests)) >= 64, 30 * SECOND)
    assert len(set(server.requests)) <= 66


def test_a_wait_for_a_silent_server_is_told_meanwhile_and_can_be_ended(
    server: ObjectServer, impatient: None
) -> None:
    class Ended(BaseException):
        pass

    def end() -> None:
        if server.url in storage.failure_reason:
            raise Ended

    server.fault, storage = "silence", open_storage(server.url)
    with pytest.raises(Ended), storage.reading(LONG, end):
        storage.resolve(LONG)
    assert storage.failure_reason == ""


def test_a_missing_bucket_is_named(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.bucket = "clips"
    for name, value in (("ENDPOINT_URL", server.url), ("SKIP_SIGNATURE", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(StorageError, match="s3://clip"):
        open_storage("s3://clip").resolve("a.avi")


def test_a_signature_is_not_sent_to_the_host_that_a_bucket_redirects_to(
    server: ObjectServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are credentials of a bucket sent to a web server."""
    with ObjectServer(folder, bucket="clips") as other:
        server.elsewhere = other.url
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        for url in ("s3://clips", f"{other.url}/clips"):
            assert pread(open_storage(url), LONG, 9)
        assert all(b"authorization: AWS4-HMAC-SHA256 Credential=mine" in h for h in server.heads)
        assert len(other.heads) == 2
        sent = b"".join(other.heads).lower()
        secret = KEYS["AWS_SECRET_ACCESS_KEY"].encode()
        assert not any(word in sent for word in (b"authorization", b"credential", secret))


def test_a_server_that_sends_whole_files_is_refused_at_once(server: ObjectServer) -> None:
    """That is no flaw of its files, and no fault that passes."""
    server.parts = False
    decoder = Decoder(server.url)
    for _ in range(2):
        with pytest.raises(StorageError, match=rf"{server.url}.*Range"):
            decoded(decoder, LONG)
    assert len(asked(server)) == 2
    with pytest.raises(StorageError, match="Range"):
        read_small(server.url, LONG, 1 << 20)


# What is asked for


def test_expected_files_are_asked_for_once_before_they_are_needed(server: ObjectServer) -> None:
    decoder, paths = Decoder(server.url), [LONG, OTHER, "run/wide.avi"]
    for path in [*paths, *paths, "../outside"]:  # `decode` raises what is wrong
        decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
    wait_until(lambda: {path for path, _ in asked(server)} == {*paths}, 30 * SECOND)
    for path in reversed(paths):
        assert not isinstance(decoded(decoder, path), str)
    assert sorted(path for path, _ in asked(server)) == sorted(paths)


def test_all_parts_of_an_expected_sample_are_asked_for_at_once(tmp_path: Path) -> None:
    """First their beginnings, and once their indexes are known the pictures that they show."""
    names = {"rgb": "rgb.avi", "ir": "ir.avi", "depth": "depth.avi"}
    whole = make_avi(tmp_path / "rgb.avi", frames=400, size=(144, 192))
    for name in ("ir.avi", "depth.avi"):
        shutil.copy(whole, tmp_path / name)
    spec = SampleSpec({name: replace(SPEC, short="loop") for name in names})
    path = SEPARATOR.join(names.values())
    here, out, wanted = Decoder(tmp_path), *np.zeros((2, 1, spec.clip_bytes), np.uint8)
    with ObjectServer(tmp_path) as server:
        there = Decoder(server.url)
        for seed in range(3):
            server.requests.clear()
            there.prefetch(path, spec, [Clip(seed)])
            if not seed:
                wait_until(lambda: len(asked(server)) == 3, 30 * SECOND)
            there.decode(path, spec, [Clip(seed)], out)
            here.decode(path, spec, [Clip(seed)], wanted)
            assert np.array_equal(out, wanted)


@pytest.mark.parametrize(
    ("codec", "container"),
    [("mpeg4", "avi"), ("libx264", "avi"), ("libx264", "mp4"), ("mpeg4", "matroska")],
)
def test_once_the_index_is_known_only_the_pictures_of_the_clip_are_fetched(
    codec: str, container: str, tmp_path: Path, in_parts: None
) -> None:
    """And what FFmpeg needs to open the file, if it does; also by another process of this host."""
    path = make_avi(
        tmp_path / "a.avi", frames=400, codec=codec, size=(144, 192), container_format=container
    )
    here, size, folders = (
        Decoder(tmp_path),
        path.stat().st_size,
        CacheDirectories(str(tmp_path / "cache")),
    )
    with ObjectServer(tmp_path) as server:
        assert decoded(Decoder(server.url, folders=folders), "a.avi") == decoded(here, "a.avi")
        assert server.bytes_sent < 1.2 * size
        for seed in range(3):
            server.requests.clear()
            there = Decoder(server.url, folders=folders)
            there.index("a.avi")  # is asked for one byte: is it still the same file?
            assert [sent for _, sent in asked(server)] == [1]
            there.prefetch("a.avi", one_clip(SPEC), [Clip(seed)])
            assert decoded(there, "a.avi", seed) == decoded(here, "a.avi", seed)
            assert 1 < server.bytes_sent < 0.5 * size
            assert len(asked(server)) <= 5


@pytest.mark.slow
def test_a_long_file_is_read_through_once_and_then_only_what_clips_need(tmp_path: Path) -> None:
    path = "long.avi"
    make_long(tmp_path / path, 7200)
    size = (tmp_path / path).stat().st_size
    with ObjectServer(tmp_path) as server:
        here, there = Decoder(tmp_path), Decoder(server.url)
        assert decoded(here, path, 0) == decoded(there, path, 0)
        assert server.bytes_sent < 1.1 * size
        first = server.bytes_sent
        assert decoded(here, path, 1) == decoded(there, path, 1)
        assert server.bytes_sent - first < 0.03 * size


# Files that change


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_changed_file_is_read_as_it_is_now(
    is_expected: bool, folder: Path, server: ObjectServer, in_parts: None,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    decoder = Decoder(server.url)
    if is_expected:
        decoder.prefetch(LONG, one_clip(SPEC), [Clip(0)])
        with pytest.raises(VideoError):
            decoder.index("gone.avi")  # by then, the first part is here
    else:
        assert not isinstance(decoded(decoder, LONG), str)
        decoder.begin()  # bytes in memory are those of the old version
    shutil.copy(folder / OTHER, folder / LONG)
    assert decoded(decoder, LONG, 3) == decoded(Decoder(folder), LONG, 3)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("separator", [SEPARATOR, PIECE_SEPARATOR])
def test_all_files_of_a_row_may_be_replaced(separator: str, tmp_path: Path, in_parts: None) -> None:
    """What is known of each is believed until its server says otherwise: one after the other is a
    reason to begin again."""
    names = [f"{number}.avi" for number in range(4)]
    for seed, name in enumerate([*names, *(f"other/{name}" for name in names)]):
        make_avi(tmp_path / name, frames=100, seed=seed, size=(144, 192))
    clip = replace(SPEC, stride=1 if separator == SEPARATOR else 80)
    spec = one_clip(clip)
    if separator == SEPARATOR:
        spec = SampleSpec(dict.fromkeys(names, clip))
    out, expected = np.zeros((2, 1, spec.clip_bytes), np.uint8)
    path = separator.join(names)
    with ObjectServer(tmp_path) as server:
        folders = CacheDirectories(str(tmp_path / "cache"))
        Decoder(server.url, folders=folders).decode(path, spec, [Clip(1)], out)  # it is known
        for name in names:
            shutil.copy(tmp_path / "other" / name, tmp_path / name)
        Decoder(tmp_path).decode(path, spec, [Clip(1)], expected)
        Decoder(server.url, folders=folders).decode(path, spec, [Clip(1)], out)
    assert np.array_equal(out, expected)


# Files that stay on a disk


def test_kept_files_give_what_the_folder_gives(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    """Kept files are not asked for again; another process or training asks for one byte of each,
    to see whether it has changed."""
    here, disk = Decoder(folder), tmp_path / "disk"
    first = reader(server.url, disk)
    good = same(here, first, folder)
    all_kept(server.url, disk, server, good)
    server.requests.clear()
    assert same(here, first, folder) == good
    assert not {path for path, _ in server.requests} & set(good)
    first.begin()
    for decoder in (first, reader(server.url, disk)):
        server.requests.clear()
        for path in good:
            decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
        assert same(here, decoder, folder) == good
        sent = [each for each in asked(server) if each[0] in good]
        assert sorted(sent) == [(path, 1) for path in good]
    assert not any(path.stat().st_mode & 0o077 for path in [disk, *disk.rglob("*")])


def test_two_buckets_of_one_name_can_share_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "other")
    shutil.copy(folder / OTHER, tmp_path / "other" / LONG)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    with (
        ObjectServer(folder, bucket="clips") as one,
        ObjectServer(tmp_path / "other", bucket="clips") as two,
    ):
        for server in (one, two):
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
            decoder = reader("s3://clips", tmp_path / "disk")
            known = decoded(Decoder(server.folder), LONG)
            assert decoded(decoder, LONG) == known
            all_kept("s3://clips", tmp_path / "disk", server, [LONG])
            assert decoded(decoder, LONG) == known


def test_nothing_is_kept_of_files_whose_server_tells_no_versions(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Neither the file nor its frames: another one of the same size may take its place."""
    monkeypatch.setattr(stores, "tag_of", lambda meta: f" {meta['size']}")
    disk, frames = tmp_path / "disk", tmp_path / "frames"
    folders = CacheDirectories(None, CacheDirectory.of(disk, None), CacheDirectory.of(frames, None))
    decoder, other = Decoder(server.url, folders=folders), Decoder(server.url)
    for seed in range(2):
        assert not isinstance(decoded(decoder, LONG, seed), str)
    assert not [*frames.iterdir(), *disk.iterdir()]
    assert "no ETag" in caplog.text
    assert decoder.version(LONG) == other.version(LONG) == 0


def test_a_kept_file_that_is_deleted_is_fetched_again(
    folder: Path, server: ObjectServer, tmp_path: Path, impatient: None
) -> None:
    """Also between two steps of a clip. If the storage is down then, the video is not bad."""
    here, disk = Decoder(folder), tmp_path / "disk"
    all_kept(server.url, disk, server, [LONG])
    decoder = reader(server.url, disk)
    decoder.version(LONG)
    shutil.rmtree(disk)
    server.fault = 503
    with pytest.raises(StorageError, match="503"):
        decoded(decoder, LONG)
    server.fault = None
    assert decoded(decoder, LONG) == decoded(here, LONG)
    all_kept(server.url, disk, server, [LONG])


@pytest.mark.parametrize("damage", ["bits", "zeros", "cut", "moved"])
def test_a_kept_file_that_is_damaged_is_fetched_again(
    damage: str, server: ObjectServer, tmp_path: Path
) -> None:
    disk, path = tmp_path / "disk", "walk/gop12.avi"
    all_kept(server.url, disk, server, [path])
    [kept] = (disk / "videoload-files").glob(f"*/{'?' * 32}")
    data = kept.read_bytes()
    half = len(data) // 2
    damaged = {
        "bits": data[:half] + bytes([data[half] ^ 4]) + data[half + 1 :],
        "zeros": bytes(len(data)),
        "cut": data[:half],
        "moved": data[half:] + data[:half],
    }
    kept.write_bytes(damaged[damage])
    server.requests.clear()
    assert decoded(reader(server.url, disk), path) == decoded(Decoder(server.folder), path)
    assert server.bytes_sent > 1
    all_kept(server.url, disk, server, [path])
    assert kept.read_bytes() == data


def test_what_clips_need_of_a_longer_file_is_fetched_once(
    server: ObjectServer, tmp_path: Path, in_parts: None
) -> None:
    disk, size = tmp_path / "disk", (server.folder / LONG).stat().st_size
    known = decoded(Decoder(server.folder), LONG)
    assert decoded(reader(server.url, disk), LONG) == known
    assert server.bytes_sent < 1.3 * size

    def is_kept() -> bool:
        server.requests.clear()
        assert decoded(reader(server.url, disk), LONG) == known
        return server.bytes_sent == 1

    wait_until(is_kept, 30 * SECOND)


def test_a_folder_that_is_full_stays_as_it_is_and_nothing_more_is_fetched_for_it(
    server: ObjectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [
        f"{path.parent.name}/{path.name}" for path in sorted(server.folder.glob("[jw]*/*.avi"))
    ]
    sizes = [(server.folder / name).stat().st_size for name in names]
    decoder, limit = reader(server.url, tmp_path / "disk", sum(sizes[:2]) / 1e9), sum(sizes[:2])
    for name in names:
        decoded(decoder, name)
    wait_until(lambda: "full" in caplog.text, 30 * SECOND)
    kept = [*tmp_path.glob("disk/videoload-files/*/*")]
    assert 0 < sum(512 * file.stat().st_blocks for file in kept) <= limit + (8 << 10)
    server.requests.clear()
    decoder.begin()
    for name in names:
        decoded(decoder, name)
    assert server.bytes_sent <= sum(sizes) + 2 * len(names)


def test_only_what_is_ours_in_a_folder_is_changed(
    server: ObjectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is read or written through a link, or of another user."""
    disk = tmp_path / "disk"
    own = disk / "videoload-files"
    own.mkdir(mode=0o700, parents=True)
    users = [disk / name for name in ("bytes", "0" * 32)]
    for file in users:
        file.write_bytes(b"months of work")
    all_kept(server.url, disk, server, [LONG])
    [kept] = own.glob(f"*/{'?' * 32}")
    shutil.move(kept, tmp_path / "outside")
    kept.symlink_to(tmp_path / "outside")
    known = decoded(Decoder(server.folder), LONG)
    server.requests.clear()
    writing = reader(server.url, disk)
    assert decoded(writing, LONG) == known
    assert server.bytes_sent >= (server.folder / LONG).stat().st_size
    wait_until(lambda: not kept.is_symlink(), 30 * SECOND, "the file takes the place of the link")
    assert (tmp_path / "outside").exists()
    assert all(file.read_bytes() == b"months of work" for file in users)
    if os.geteuid() == 0:
        other = reader(server.url, disk)
        os.chown(own, 12345, 12345)
        decoded(other, OTHER)
        wait_until(lambda: str(own) in caplog.text, 30 * SECOND)
