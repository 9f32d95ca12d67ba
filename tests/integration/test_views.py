"""Frames of segments, several crops, views, outputs of another type, and frames that are turned or
stretched: the same bytes from workers as serially, and no frame decoded needlessly."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest
from av.stream import Disposition
from av.video.stream import VideoStream

from tests.support.videos import Videos, make_avi
from videoload import ClipSpec
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder
from videoload.reading.complete_decode import decode_index
from videoload.reading.index import VideoIndex
from videoload.storage.files import Folder

RANDOM: dict[str, Any] = {"sampling": "random", "crop": "resized", "flip": True}


def spec_of(**changes: Any) -> ClipSpec:
    default: dict[str, Any] = {"frames": 4, "resize": 40, "size": (32, 32)}
    return ClipSpec(**default | changes)


def counted_ticks(decode: Callable[..., Any], *arguments: Any) -> int:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1

    decode(*arguments, tick)
    return ticks


def test_all_clips_of_one_video_in_a_batch_are_decoded_in_one_pass(videos: Videos) -> None:
    path = "walk/gop12.avi"
    decoder = Decoder(videos.root)
    decoder.videos.index(path)
    testing = spec_of(sampling="uniform", clips_per_video=4, crop="three")
    requests = [Clip(7, clip, crop=crop) for clip in range(4) for crop in range(3)]
    out = np.empty((12, testing.clip_bytes), np.uint8)
    views = spec_of(**RANDOM, views=6, resize=None)
    seen = np.empty((1, views.clip_bytes), np.uint8)
    assert counted_ticks(decoder.decode, path, testing, requests, out) <= videos.frames[path] + 1
    assert counted_ticks(decoder.decode, path, views, [Clip(7)], seen) <= videos.frames[path] + 1
    alone = np.empty((1, testing.clip_bytes), np.uint8)
    for request, row in zip(requests, out, strict=True):
        decoder.decode(path, testing, [request], alone)
        assert np.array_equal(alone[0], row)


# Frames that are shown otherwise than they are stored


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 96 x 72 pixels."""
    root = tmp_path_factory.mktemp("turned")
    make_avi(root / "0.mp4", frames=13, size=(72, 96), container_format="mp4")
    return root


def decoded(root: Path, path: str, spec: ClipSpec) -> Any:
    out = np.empty((1, *spec.shape), np.uint8)
    Decoder(root).decode(path, spec, [Clip(0)], out)
    return out[0]


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ((64, 48, None), (96, 72, None), (96, 72)),  # the largest
        ((64, 48, Disposition.default), (96, 72, None), (64, 48)),  # the default one
        ((2600, 2000, Disposition.attached_pic), (64, 48, None), (64, 48)),  # no cover picture
    ],
)
def test_the_stream_is_the_one_that_ffmpeg_takes(
    first: tuple[int, int, Disposition | None],
    second: tuple[int, int, Disposition | None],
    taken: tuple[int, int],
    tmp_path: Path,
) -> None:
    path = tmp_path / "two.video"
    format_ = "mp4" if Disposition.attached_pic in (first[2], second[2]) else "matroska"
    with av.open(str(path), "w", format=format_) as container:
        streams = []
        for width, height, disposition in (first, second):
            codec = "mjpeg" if disposition == Disposition.attached_pic else "mpeg4"
            stream = cast(VideoStream, container.add_stream(codec, rate=25))
            stream.width, stream.height = width, height
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            stream.disposition = disposition or Disposition(0)
            streams.append(stream)
        for number in range(5):
            for stream in streams:
                if number and stream.codec_context.name == "mjpeg":
                    continue
                image = np.full((stream.height, stream.width, 3), 20 * number, np.uint8)
                frame = av.VideoFrame.from_ndarray(image, "rgb24")
                frame = frame.reformat(format=stream.pix_fmt)
                frame.pts = number
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode(None))
    info = Decoder(tmp_path).videos.index("two.video").info
    assert (info.width, info.height, info.num_frames) == (*taken, 5)


# The first two rows of a display matrix, and what NumPy makes of a stored frame [height, width].
MATRICES: dict[str, tuple[tuple[int, int, int, int], Callable[[Any], Any]]] = {
    "as stored": ((1, 0, 0, 1), lambda f: f),
    "turned by 90 degrees": ((0, 1, -1, 0), lambda f: np.rot90(f, -1)),
    "turned by 180 degrees": ((-1, 0, 0, -1), lambda f: np.rot90(f, 2)),
    "turned by 270 degrees": ((0, -1, 1, 0), lambda f: np.rot90(f, 1)),
    "mirrored": ((-1, 0, 0, 1), lambda f: f[:, ::-1]),
    "upside down": ((1, 0, 0, -1), lambda f: f[::-1]),
    "transposed": ((0, 1, 1, 0), lambda f: f.swapaxes(0, 1)),
    "transposed the other way": ((0, -1, -1, 0), lambda f: np.rot90(f, 2).swapaxes(0, 1)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_frames_are_mirrored_as_players_mirror_them(
    name: str, turned: Path, tmp_path: Path
) -> None:
    (a, b, c, d), change = MATRICES[name]
    made = bytearray((turned / "0.mp4").read_bytes())
    at = made.index(b"tkhd") + 44  # the matrix of the track
    made[at : at + 36] = struct.pack(
        ">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 96 << 16, 72 << 16, 1 << 30
    )
    (tmp_path / "a.mp4").write_bytes(made)
    stored = decoded(turned, "0.mp4", ClipSpec(4, size=(72, 96), rotate=False))
    size = (96, 72) if b else (72, 96)
    assert decoded(tmp_path, "a.mp4", ClipSpec(4, size=size)).tolist() == [
        change(frame).tolist() for frame in stored
    ]
    cut = decoded(tmp_path, "a.mp4", ClipSpec(4, size=(40, 60)))
    top, left = (size[0] - 40) // 2, (size[1] - 60) // 2
    for got, frame in zip(cut, stored, strict=True):
        assert np.array_equal(got, change(frame)[top : top + 40, left : left + 60])
    index = Decoder(tmp_path).videos.index("a.mp4")
    whole, _ = decode_index(Folder(tmp_path).resolve("a.mp4"), lambda: None)
    assert whole.info == index.info == VideoIndex.from_bytes(whole.to_bytes()).info
