"""With a frame store in any state, a stream has the same bytes as without it."""

import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.digests import digest, digests
from tests.support.programs import Programs
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import one_clip
from videoload.decoding import clip_frames, software, source
from videoload.decoding.decoder import Decoder
from videoload.errors import SpecError
from videoload.reading import indexes
from videoload.storage.cache_directories import CacheDirectories, CacheDirectory
from videoload.storage.record_file import RecordFile

CLIP = ClipSpec(
    frames=4, stride=2, resize=48, size=(40, 40), crop="random", sampling="random", flip=True
)
EPOCHS = 6


def stream_of(
    catalog: Catalog, clip: ClipSpec, folder: Path | None, epochs: int = EPOCHS
) -> list[str]:
    options: dict[str, Any] = {} if folder is None else {"frame_store": folder}
    return digests(
        decode_serially(catalog, clip, 4, shuffle=True, seed=3, epochs=epochs, **options)
    )


def keeping(videos: Videos, folder: Path, most: int = 10**9) -> Decoder:
    """A decoder that keeps frames in this folder, at most so many bytes."""
    kept = CacheDirectory(str(folder), most)
    return Decoder(videos.root, folders=CacheDirectories(frame_store=kept))


def filled(videos: Videos, folder: Path) -> list[str]:
    """Fill a store. Returns the digests of the batches, which are the same as without it."""
    expected = stream_of(videos.catalog, CLIP, None)
    assert stream_of(videos.catalog, CLIP, folder) == expected
    return expected


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*/[0-9a-f]*"))


def test_a_clip_whose_frames_are_kept_decodes_nothing(
    videos: Videos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = keeping(videos, tmp_path)
    out, again = np.empty((1, *CLIP.shape), np.uint8), np.empty((1, *CLIP.shape), np.uint8)
    path = "walk/b_frames.avi"
    frames = first.decode(path, CLIP, [Clip(7)], out)

    def read_frames(*arguments: object) -> None:
        raise AssertionError("a frame is decoded")

    monkeypatch.setattr(source, "read_frames", read_frames)
    monkeypatch.setattr(indexes, "find_index", read_frames)
    other = keeping(videos, tmp_path)
    decoded = other.start(path, one_clip(CLIP), [Clip(7)], again).finish()
    assert decoded.from_frame_store
    assert np.array_equal(decoded.frames, frames)
    assert np.array_equal(out, again)
    monkeypatch.undo()
    monkeypatch.setattr(software, "code_digest", lambda: "other code")
    monkeypatch.setattr(clip_frames, "software_and_code", software.software_and_code.__wrapped__)
    newer = keeping(videos, tmp_path)
    assert not newer.start(path, one_clip(CLIP), [Clip(7)], again).finish().from_frame_store


@pytest.mark.parametrize("most", [10**9, 10**6])
def test_a_file_of_the_user_in_the_folder_of_a_store_stays(
    most: int, videos: Videos, tmp_path: Path
) -> None:
    (tmp_path / "bytes").write_bytes(b"months of work")
    decoder = keeping(videos, tmp_path, most)
    decoder.decode("walk/b_frames.avi", CLIP, [Clip(7)], np.empty((1, *CLIP.shape), np.uint8))
    assert files_of(tmp_path)
    assert (tmp_path / "bytes").read_bytes() == b"months of work"


@pytest.mark.parametrize("gb", rest_nightly([2e-4, 0, 1e-3]))
def test_a_store_that_is_too_small_changes_nothing_keeps_its_limit_and_says_so(
    videos: Videos, tmp_path: Path, gb: float
) -> None:
    expected = digest(decode_serially(videos.catalog, CLIP, 4, shuffle=True, seed=3, epochs=3))
    with Client(workers=1, frame_store=tmp_path, frame_store_gb=gb) as client:
        stream = client.stream(videos.catalog, CLIP, 4, shuffle=True, seed=3)
        assert digest(stream.batches(epochs=3)) == expected
        stats = stream.stats()
    assert 0.1 < stats.frame_store_full_ratio <= 1
    assert f" {stats.frame_store_full_ratio:.0%}" in stats.verdict
    used = sum(512 * file.stat().st_blocks for file in files_of(tmp_path))
    assert used <= 1e9 * gb + 8192 * len(files_of(tmp_path))


def test_a_store_may_be_deleted_while_it_is_read(videos: Videos, tmp_path: Path) -> None:
    expected, ended = filled(videos, tmp_path), threading.Event()

    def delete() -> None:
        while not ended.wait(0.01):
            for file in files_of(tmp_path)[::3]:
                file.unlink(missing_ok=True)
            if random.random() < 0.1:
                shutil.rmtree(tmp_path, ignore_errors=True)

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        assert stream_of(videos.catalog, CLIP, tmp_path) == expected
    finally:
        ended.set()
        thread.join()


def gray_video(path: Path, level: int) -> None:
    """A file whose size and time do not depend on what it shows."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("rawvideo", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(20):
            picture = np.full((72, 64), level, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "yuv420p")))
        container.mux(stream.encode(None))
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize("way", ["copied onto", "replaced"])
def test_a_video_of_the_same_size_and_time_does_not_get_the_frames_of_another(
    way: str, tmp_path: Path
) -> None:
    """`cp -p`, `tar` and `rsync -t` make such files."""
    root, path = tmp_path / "videos", tmp_path / "videos/a.avi"
    root.mkdir()
    gray, means = replace(CLIP, pixels="gray"), []
    for level in (60, 200):
        new = path if way == "copied onto" else tmp_path / f"{level}.avi"
        gray_video(new, level)
        new.replace(path)
        out = np.empty((1, *gray.shape), np.uint8)
        folders = CacheDirectories(frame_store=CacheDirectory(str(tmp_path / "frames"), 10**9))
        Decoder(root, folders=folders).decode("a.avi", gray, [Clip(7)], out)
        means.append(int(out.mean()))
    assert means == [51, 214]


def test_a_file_whose_frames_change_their_format_is_decoded_once_for_a_clip(tmp_path: Path) -> None:
    """Its frames cannot be stored. That is found out once, and not with each clip."""
    path = tmp_path / "videos/a.avi"
    kinds = [
        make_avi(tmp_path / f"{pixels}.avi", frames=10, codec="mjpeg", pixels=pixels)
        for pixels in ("yuvj420p", "yuvj444p")
    ]
    path.parent.mkdir()
    with av.open(str(path), "w", format="avi") as joined, av.open(str(kinds[0])) as first:
        stream, number = joined.add_stream_from_template(first.streams.video[0]), count()
        for kind in kinds:
            with av.open(str(kind)) as container:
                for packet in (each for each in container.demux(video=0) if each.size):
                    packet.stream, packet.pts = stream, next(number)
                    packet.dts = packet.pts
                    joined.mux(packet)
    clip, ticks = replace(CLIP, frames=8, sampling="center", crop="center"), list[int]()

    def decoded(decoder: Decoder) -> bytes:
        out = np.zeros((1, *clip.shape), np.uint8)
        decoder.decode("a.avi", clip, [Clip(1)], out, lambda: ticks.append(1))
        return out.tobytes()

    plain = Decoder(path.parent)
    expected, alone = decoded(plain), -len(ticks)
    assert decoded(plain) == expected
    alone += len(ticks)
    kept = CacheDirectory(str(tmp_path / "frames"), 10**9)
    storing = Decoder(path.parent, folders=CacheDirectories(frame_store=kept))
    assert decoded(storing) == expected
    ticks.clear()
    assert decoded(storing) == expected
    assert len(ticks) == alone


FILL = """
import sys
from videoload import Catalog, ClipSpec, decode_serially
clip = ClipSpec(frames=4, stride=2, resize=48, size=(40, 40), crop="random", sampling="random")
print("begins", flush=True)
for _ in decode_serially(
    Catalog.from_folder(sys.argv[1]), clip, 4, shuffle=True, seed=int(sys.argv[3]), epochs=10**6,
    frame_store=sys.argv[2],
):
    pass
"""


def test_the_half_written_frames_of_a_killed_process_are_ignored(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    draw = random.Random(4)
    for kill in range(either(4, 200)):
        for file in files_of(tmp_path)[kill % 2 :: 2]:  # so that there is something to write
            file.unlink()
        filling = programs.script(FILL, str(videos.root), str(tmp_path), str(kill))
        filling.wait_for("begins", 60 * SECOND)
        with pytest.raises(subprocess.TimeoutExpired):
            filling.process.wait(draw.uniform(0.05, 0.2) * SECOND)
        filling.end()
    expected = stream_of(videos.catalog, CLIP, None)
    assert stream_of(videos.catalog, CLIP, tmp_path) == expected
    for file in files_of(tmp_path):
        assert file.stat().st_size > 4096, "nothing is left of what was being made"


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A disk, by its size."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("this sandbox mounts no disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def told(caplog: pytest.LogCaptureFixture, what: str) -> str:
    """The one message of it."""
    [message] = {text for text in caplog.messages if what in text}
    return message


@pytest.mark.parametrize("disk", ["300k"], indirect=True)
def test_a_full_disk_is_reported_once_and_changes_nothing(
    videos: Videos, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeping(videos, disk, 10**9)
    draw, plain = random.Random(5), Decoder(videos.root)
    for video in [*videos.catalog] * 3:
        request, out = [Clip(draw.getrandbits(60))], np.empty((2, 1, *CLIP.shape), np.uint8)
        for each, row in zip((plain, kept), out, strict=True):
            each.decode(video.path, CLIP, request, row)
        assert np.array_equal(*out)
    assert str(disk) in told(caplog, "frame store")


@pytest.mark.parametrize("disk", ["64m"], indirect=True)
def test_a_store_on_a_disk_that_is_only_read_serves_what_it_has(
    videos: Videos, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = [filled(videos, disk / "frames"), stream_of(videos.catalog, CLIP, None, 12)]
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with Client(workers=1, frame_store=disk / "frames") as client:
        stream = client.stream(videos.catalog, CLIP, 4, shuffle=True, seed=3)
        assert digests(stream.batches(epochs=EPOCHS)) == expected[0]
        assert stream.stats().frame_store_hit_ratio == 1
    assert stream_of(videos.catalog, CLIP, disk / "frames", 12) == expected[1]
    with pytest.raises(SpecError, match=r"other.*Read-only"):
        CacheDirectory.of(disk / "other", None)
    assert f"{disk}/frames" in told(caplog, "frame store")


def test_a_slow_disk_is_waited_for_a_part_of_the_time_and_changes_nothing(
    videos: Videos,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected, write = stream_of(videos.catalog, CLIP, None), RecordFile.write
    writes = 0

    def slow(*arguments: Any) -> dict[int, int]:
        nonlocal writes
        writes += 1
        time.sleep(0.3)
        return write(*arguments)

    monkeypatch.setattr(RecordFile, "write", slow)
    monkeypatch.setattr(clip_frames, "TOLD_AFTER", 10)
    began = time.monotonic()
    assert stream_of(videos.catalog, CLIP, tmp_path) == expected
    assert 0.3 * writes < 1.0 + 0.3 * (time.monotonic() - began)
    assert told(caplog, "slow disk")
