"""The decoder on real files: files made here, and other people's files with their true facts."""

import hashlib
import json
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

import videoload as vl
from tests.support.avi_files import join, split
from tests.support.thorough import either
from tests.support.videos import Videos, make_avi
from videoload import ClipSpec, VideoError
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.decoding.decoder import Decoder
from videoload.reading.containers import OpenedVideo
from videoload.reading.frames import read_frames
from videoload.reading.index import open_video
from videoload.reading.video import VideoReader as Opened
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.files import Folder

TINY = ClipSpec(frames=4, size=(32, 32))


def md5(frame: VideoFrame) -> str:
    """Of the visible pixels in their native planes (as in facts.json), of upside-down ones as
    rgb24."""
    if any(plane.line_size < 0 for plane in frame.planes):
        return rgb24_md5(frame)
    found = hashlib.md5()
    for plane in frame.planes:
        bytes_a_pixel = 3 if frame.format.name in ("rgb24", "bgr24") else 1
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        found.update(np.ascontiguousarray(rows[:, : plane.width * bytes_a_pixel]).tobytes())
    return found.hexdigest()[:12]


def rgb24_md5(frame: VideoFrame) -> str:
    return hashlib.md5(frame.to_ndarray(format="rgb24", threads=1).tobytes()).hexdigest()


def sequential(path: Path) -> list[str]:
    """The frames of a file, by the simplest means."""
    with av.open(str(path), metadata_errors="replace") as container:
        container.streams.video[0].thread_type = "NONE"
        return [md5(frame) for frame in container.decode(video=0)]


def check_windows(decoder: Decoder, path: str, expected: list[str], count: int) -> None:
    """Each frame of a random run of ordinals, 1 to 8 apart, is the one with that ordinal."""
    index, file = decoder.videos.index(path), Folder(decoder.storage.root).resolve(path)
    assert index.info.num_frames == len(expected)
    draw, kept = random.Random(path), list[Opened]()
    for turn in range(count):
        first, stride = draw.randrange(len(expected)), 1 + turn % 8
        wanted = list(range(first, min(len(expected), first + 6 * stride), stride))
        got: dict[int, str] = {}
        opened = kept.pop() if kept else open_video(file, index)
        if read_frames(opened, index.order, wanted, partial(note, got), lambda: None):
            kept.append(opened)
        assert got == {ordinal: expected[ordinal] for ordinal in wanted}


def note(got: dict[int, str], ordinal: int, frame: VideoFrame) -> None:
    got[ordinal] = md5(frame)  # some come twice, if the decoder complained


def frames_of(decoder: Decoder, path: str, wanted: list[int]) -> dict[int, str]:
    """The pixels of these frames from a decoder of their own."""
    index, file = decoder.videos.index(path), Folder(decoder.storage.root).resolve(path)
    got: dict[int, str] = {}
    read_frames(open_video(file, index), index.order, wanted, partial(note, got), lambda: None)
    return got


def decode(
    root: Path, path: str, spec: ClipSpec = TINY, seed: int = 1, **which: Any
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    return decode_with(Decoder(root), path, spec, seed, **which)


def decode_with(
    decoder: Decoder, path: str, spec: ClipSpec, seed: int, **which: Any
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    out = np.empty((1, *spec.shape), np.uint8)
    frames = decoder.decode(path, spec, [Clip(seed, row=Video("", **which))], out)
    return out[0], frames[0]


# Files made here


def hevc_as_raw_video(good: bytes) -> bytes:
    """As FFmpeg writes it into an AVI, where it has no name for it."""
    header, chunks = split(good)
    at = header.index(b"strf") + 24
    hevc = [each._replace(data=b"\0\0\0\1\x40\1" + bytes(50)) for each in chunks]
    return join(header[:at] + bytes(4) + header[at + 4 :], hevc)


def cut_raw_pictures(good: bytes) -> bytes:
    """Raw pictures with a palette, of fewer bytes than they need."""
    header, chunks = split(good)
    at = header.index(b"strf") + 22
    palettes = header[:at] + b"\x08\0" + bytes(4) + header[at + 6 :]
    return join(palettes, [each._replace(data=bytes(1000)) for each in chunks])


# What a file holds, made of a good one, and what the reason says.
HOLDS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "text": (lambda _: b"these are not pictures" * 100, ""),
    "nothing": (lambda _: b"", ""),
    "a header": (lambda good: good[: good.index(b"movi") + 4], ""),
    "noise": (lambda _: random.Random(1).randbytes(50_000), ""),
    "an unknown codec": (lambda good: good.replace(b"FMP4", b"?!?!"), r"'\?!\?!'|no frame"),
    "a web page": (lambda _: b"\n <!DOCTYPE html><html><body>404</body></html>", "HTML"),
    "a Git LFS pointer": (
        lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "git lfs pull",
    ),
    "zeros": (lambda _: bytes(9999), "512"),
    "a WMV": (lambda _: bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + bytes(999), "WMV"),
    "an MXF": (lambda _: bytes.fromhex("060e2b34020501010d01020101020400") + bytes(999), "MXF"),
    "a sound file": (lambda _: b"RIFF\x24\0\0\0WAVEfmt " + bytes(999), "WAVE"),
    "HEVC as raw video": (hevc_as_raw_video, "HEVC"),
    "raw pictures that are cut": (cut_raw_pictures, "1000"),
}
IS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, ""),
    "a pipe": (os.mkfifo, ""),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "No such file"),
    "a link to itself": (lambda path: path.symlink_to(path), "symbolic link"),
    "not there": (lambda path: None, "No such file"),
}


def test_files_that_share_a_decoder_have_the_frames_of_one_of_their_own(tmp_path: Path) -> None:
    for seed in range(20):
        make_avi(tmp_path / f"{seed}.avi", frames=30, seed=seed)
    decoder, draw = Decoder(tmp_path), random.Random(0)
    for seed in range(20):
        path, start = f"{seed}.avi", draw.randrange(26)
        mine, _ = decode_with(decoder, path, TINY, seed, start=start, end=start + 4)
        alone, _ = decode(tmp_path, path, TINY, seed, start=start, end=start + 4)
        assert np.array_equal(mine, alone)


@pytest.mark.parametrize("kind", [*HOLDS, *IS])
def test_a_file_that_is_not_a_video_is_refused_with_a_reason(
    kind: str, videos: Videos, tmp_path: Path
) -> None:
    (tmp_path / "other.avi").touch()  # the folder is not empty, as one that is away
    path = tmp_path / "bad.avi"
    if kind in HOLDS:
        content, reason = HOLDS[kind]
        path.write_bytes(content((videos.root / "walk/gop12.avi").read_bytes()))
    else:
        make_it, reason = IS[kind]
        make_it(path)
    for _ in range(2):
        with pytest.raises(VideoError, match=f"^bad.avi: .*({reason})") as caught:
            decode(tmp_path, "bad.avi")
        assert caught.value.path == "bad.avi"
        assert "\n" not in str(caught.value)


def unproven(path: Path, seed: int = 0) -> Path:
    """A file that does not prove its frames: only a complete decode counts them."""
    return make_avi(path, frames=30, codec="snow", seed=seed)


@pytest.mark.slow
def test_a_kept_index_of_another_file_is_noticed(tmp_path: Path) -> None:
    made, other = unproven(tmp_path / "made.avi", 1), unproven(tmp_path / "other.avi", 2)
    expected, _ = decode(tmp_path, "other.avi")
    size = max(made.stat().st_size, other.stat().st_size)
    for path in (made, other):
        os.truncate(path, size)
    Decoder(tmp_path, folders=CacheDirectories(cache=str(tmp_path / "kept"))).videos.index(
        "made.avi"
    )
    status = made.stat()
    other.replace(made)
    os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))  # nothing shows the change

    decoder = Decoder(tmp_path, folders=CacheDirectories(cache=str(tmp_path / "kept")))
    out = np.empty((2, *TINY.shape), np.uint8)
    both = [
        decoder.start("made.avi", one_clip(TINY), [Clip(1)], out[row : row + 1]) for row in (0, 1)
    ]
    for run in both:
        run.finish(lambda: None)
    assert np.array_equal(out[0], expected)
    assert np.array_equal(out[1], expected)


def test_a_refused_picture_keeps_its_number_and_shows_the_one_before_it(tmp_path: Path) -> None:
    made = make_avi(tmp_path / "made.avi", frames=20, codec="magicyuv")
    whole = sequential(made)
    with av.open(str(made)) as container:
        packet = [p for p in container.demux(video=0) if p.size][7]
        assert packet.pos is not None
        position = packet.pos
    data = bytearray(made.read_bytes())
    data[position : position + packet.size] = bytes(packet.size)
    made.write_bytes(data)
    decoder = Decoder(tmp_path)
    assert decoder.videos.index("made.avi").info.num_frames == 20
    for first in (0, 5, 7):  # from every direction
        wanted = list(range(first, 12))
        assert frames_of(decoder, "made.avi", wanted) == {
            i: whole[6 if i == 7 else i] for i in wanted
        }


def test_a_picture_that_a_decoder_drops_silently_shifts_no_other(tmp_path: Path) -> None:
    """FFmpeg's decoder of MPEG-2 drops a picture silently if the bytes after its header are damaged
    and it comes right after a key frame, when the decoder has not shown anything yet."""
    made = make_avi(tmp_path / "made.avi", frames=20, codec="mpeg2video")
    with av.open(str(made)) as container:
        packets = [p for p in container.demux(video=0) if p.size]
        key = [i for i, packet in enumerate(packets) if packet.is_keyframe][1]
        position, size = packets[key + 1].pos, packets[key + 1].size
    assert position is not None
    data = bytearray(made.read_bytes())
    data[position + 8 : position + size] = bytes(100 + i % 100 for i in range(size - 8))
    made.write_bytes(data)
    decoder = Decoder(tmp_path)
    index = decoder.videos.index("made.avi")
    assert index.info.num_frames == len(sequential(made)) == 19
    shown = [frames_of(decoder, made.name, wanted) for wanted in (list(range(19)), [key + 2])]
    assert shown[1] == {key + 2: shown[0][key + 2]}


@pytest.mark.parametrize("b_frames", [0, 2])
def test_an_avi_file_that_is_known_needs_no_demuxer(
    b_frames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_avi(tmp_path / "made.avi", frames=60, b_frames=b_frames)
    expected, folders = sequential(made), CacheDirectories(cache=str(tmp_path / "kept"))
    Decoder(tmp_path, folders=folders).videos.index("made.avi")

    def open_(*args: object, **kwargs: object) -> None:
        raise AssertionError("FFmpeg opens it")

    monkeypatch.setattr(OpenedVideo, "__init__", open_)
    decoder = Decoder(tmp_path, folders=folders)
    check_windows(decoder, "made.avi", expected, count=16)


def test_an_error_that_nobody_thought_of_is_the_file_s(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("31 is not a valid Type")

    monkeypatch.setattr("videoload.decoding.filter_graphs.FilterGraph.through", fail)
    decoder, path, why = Decoder(videos.root), "walk/gop12.avi", "ValueError: 31 is not a valid"
    with pytest.raises(VideoError, match=why):
        decoder.report(path)
    with pytest.raises(VideoError, match=why), vl.open(videos.root / path, cache=False) as video:
        video[0]
    spec = ClipSpec(frames=2, size=(32, 32))
    left = vl.decode_serially(videos.catalog, spec, 1, on_error="skip", max_bad=1.0)
    with pytest.raises(vl.TooManyBadVideos, match=why):
        list(left)


# Other people's files

UNPROVEN = {"odd/opencv_cinepak.avi", "odd/opencv_indeo5.avi", "odd/opencv_wmv9.avi"}


@pytest.mark.slow
def test_every_window_of_every_real_file_holds_the_frames_of_its_facts(real_videos: Path) -> None:
    decoder = Decoder(real_videos)
    checked = 0
    for path, facts in json.loads((real_videos / "facts.json").read_text()).items():
        if not facts["decoded_frames"]:
            with pytest.raises(VideoError) as caught:
                decode_with(decoder, path, TINY, 1)
            assert caught.value.path == path
            assert caught.value.reason
            continue
        expected = facts["frame_md5_12"]
        # stored upside down: the facts know these frames only as rgb24
        if facts["pix_fmt"] == "bgr24":
            expected = sequential(real_videos / path)
            for ordinal, whole in facts["rgb24_md5"].items():
                assert expected[int(ordinal)] == whole
        index = decoder.videos.index(path)
        assert index.info.num_frames == facts["decoded_frames"], path
        assert (index.info.width, index.info.height) == (facts["width"], facts["height"])
        assert index.order.is_proven == (path not in UNPROVEN)
        check_windows(decoder, path, expected, count=either(4, 24))
        checked += 1
    assert checked >= 20
