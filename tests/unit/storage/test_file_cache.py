"""Files below a URL that stay on a disk: what was read is not requested again."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.object_server import ObjectServer
from tests.support.remote_files import (
    LONG,
    OTHER,
    SPEC,
    assert_same_files,
    clip_of,
    decoder_of,
    wait_until_cached,
)
from tests.support.servers import asked
from tests.support.waiting import SECOND, wait_until
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import StorageError
from videoload.storage import stores
from videoload.storage.cache_directories import CacheDirectories, CacheDirectory

pytest.importorskip("obstore", reason="needs videoload[remote]")


def test_cached_files_give_what_the_folder_gives(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    """They are not requested again. Another process or training run requests one byte of each, to
    see whether it has changed."""
    here, disk = Decoder(folder), tmp_path / "disk"
    first = decoder_of(server.url, disk)
    good = assert_same_files(here, first, folder)
    wait_until_cached(server.url, disk, server, good)
    server.requests.clear()
    assert assert_same_files(here, first, folder) == good
    assert not {path for path, _ in server.requests} & set(good)
    first.begin()
    for decoder in (first, decoder_of(server.url, disk)):
        server.requests.clear()
        for path in good:
            decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
        assert assert_same_files(here, decoder, folder) == good
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
            decoder = decoder_of("s3://clips", tmp_path / "disk")
            known = clip_of(Decoder(server.folder), LONG)
            assert clip_of(decoder, LONG) == known
            wait_until_cached("s3://clips", tmp_path / "disk", server, [LONG])
            assert clip_of(decoder, LONG) == known


def test_nothing_is_cached_of_files_whose_server_tells_no_versions(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Neither the file nor its frames: another one of the same size may take its place."""
    monkeypatch.setattr(stores, "tag_of", lambda meta: f" {meta['size']}")
    disk, frames = tmp_path / "disk", tmp_path / "frames"
    folders = CacheDirectories(None, CacheDirectory.of(disk, None), CacheDirectory.of(frames, None))
    decoder, other = Decoder(server.url, folders=folders), Decoder(server.url)
    for seed in range(2):
        assert not isinstance(clip_of(decoder, LONG, seed), str)
    assert not [*frames.iterdir(), *disk.iterdir()]
    assert "no ETag" in caplog.text
    assert decoder.videos.version(LONG) == other.videos.version(LONG) == 0


def test_what_clips_need_of_a_longer_file_is_requested_once(
    server: ObjectServer, tmp_path: Path, in_parts: None
) -> None:
    disk, size = tmp_path / "disk", (server.folder / LONG).stat().st_size
    known = clip_of(Decoder(server.folder), LONG)
    assert clip_of(decoder_of(server.url, disk), LONG) == known
    assert server.bytes_sent < 1.3 * size

    def is_cached() -> bool:
        server.requests.clear()
        assert clip_of(decoder_of(server.url, disk), LONG) == known
        return server.bytes_sent == 1

    wait_until(is_cached, 30 * SECOND)


def test_a_full_cache_stays_as_it_is_and_nothing_more_is_requested_for_it(
    server: ObjectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [
        f"{path.parent.name}/{path.name}" for path in sorted(server.folder.glob("[jw]*/*.avi"))
    ]
    sizes = [(server.folder / name).stat().st_size for name in names]
    decoder, limit = decoder_of(server.url, tmp_path / "disk", sum(sizes[:2]) / 1e9), sum(sizes[:2])
    for name in names:
        clip_of(decoder, name)
    wait_until(lambda: "full" in caplog.text, 30 * SECOND)
    cached = [*tmp_path.glob("disk/videoload-files/*/*")]
    assert 0 < sum(512 * file.stat().st_blocks for file in cached) <= limit + (8 << 10)
    server.requests.clear()
    decoder.begin()
    for name in names:
        clip_of(decoder, name)
    assert server.bytes_sent <= sum(sizes) + 2 * len(names)


# What happens to the cache


def test_files_of_a_bucket_that_nobody_reads_make_room_for_those_of_another(
    folder: Path, server: ObjectServer, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    wait_until_cached(server.url, disk, server, [LONG])
    [left] = (disk / "videoload-files").glob("*/set.json")
    cached_bytes = int((disk / "videoload-files/bytes").read_bytes())
    with ObjectServer(folder) as other:
        reading = decoder_of(other.url, disk, 1.5 * cached_bytes / 1e9)
        assert clip_of(reading, LONG) == clip_of(Decoder(folder), LONG)
        assert left.exists(), "it was used within the last hour"
        os.utime(left, (0, 0))
        reading = decoder_of(other.url, disk, 1.5 * cached_bytes / 1e9)

        def has_made_room() -> bool:
            reading.begin()
            assert clip_of(reading, LONG) == clip_of(Decoder(folder), LONG)
            return not left.exists()

        wait_until(has_made_room, 30 * SECOND)
        wait_until_cached(other.url, disk, other, [LONG])


def test_a_cached_file_that_is_deleted_is_requested_again(
    folder: Path, server: ObjectServer, tmp_path: Path, impatient: None
) -> None:
    """Also between two steps of a clip. If the storage is down then, the video is not bad."""
    here, disk = Decoder(folder), tmp_path / "disk"
    wait_until_cached(server.url, disk, server, [LONG])
    decoder = decoder_of(server.url, disk)
    decoder.videos.version(LONG)
    shutil.rmtree(disk)
    server.fault = 503
    with pytest.raises(StorageError, match="503"):
        clip_of(decoder, LONG)
    server.fault = None
    assert clip_of(decoder, LONG) == clip_of(here, LONG)
    wait_until_cached(server.url, disk, server, [LONG])


@pytest.mark.parametrize("damage", ["bits", "zeros", "cut", "moved"])
def test_a_cached_file_that_is_damaged_is_requested_again(
    damage: str, server: ObjectServer, tmp_path: Path
) -> None:
    disk, path = tmp_path / "disk", "walk/gop12.avi"
    wait_until_cached(server.url, disk, server, [path])
    [cached] = (disk / "videoload-files").glob(f"*/{'?' * 32}")
    data = cached.read_bytes()
    half = len(data) // 2
    damaged = {
        "bits": data[:half] + bytes([data[half] ^ 4]) + data[half + 1 :],
        "zeros": bytes(len(data)),
        "cut": data[:half],
        "moved": data[half:] + data[:half],
    }
    cached.write_bytes(damaged[damage])
    server.requests.clear()
    assert clip_of(decoder_of(server.url, disk), path) == clip_of(Decoder(server.folder), path)
    assert server.bytes_sent > 1
    wait_until_cached(server.url, disk, server, [path])
    assert cached.read_bytes() == data


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
    wait_until_cached(server.url, disk, server, [LONG])
    [cached] = own.glob(f"*/{'?' * 32}")
    shutil.move(cached, tmp_path / "outside")
    cached.symlink_to(tmp_path / "outside")
    known = clip_of(Decoder(server.folder), LONG)
    server.requests.clear()
    writing = decoder_of(server.url, disk)
    assert clip_of(writing, LONG) == known
    assert server.bytes_sent >= (server.folder / LONG).stat().st_size
    wait_until(lambda: not cached.is_symlink(), 30 * SECOND, "the file takes the place of the link")
    assert (tmp_path / "outside").exists()
    assert all(file.read_bytes() == b"months of work" for file in users)
    if os.geteuid() == 0:
        other = decoder_of(server.url, disk)
        os.chown(own, 12345, 12345)
        clip_of(other, OTHER)
        wait_until(lambda: str(own) in caplog.text, 30 * SECOND)
