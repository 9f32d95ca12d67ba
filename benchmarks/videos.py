"""The test files: textured, everything in them moves, and no two frames are alike.

A background pans and a foreground drifts across it, both with the 1/f spectrum of natural pictures,
under sensor noise. At the quantisers below, a 320x240 MPEG-4 frame takes about 3 KB, as in UCF-101.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.codec.context import Flags
from av.packet import Packet
from av.video.stream import VideoStream

_MPEG4_GROUP, _MPEG4_VOP = b"\0\0\1\xb3", b"\0\0\1\xb6"
_B_VOP = 2  # its type, the two bits that follow
_DIVX = b"\0\0\1\xb2DivX503b1393p"  # user data: p, for packed
_TIME_BITS = 5  # of a VOP header, at 25 frames a second

Plane = npt.NDArray[np.int16]

_FPS = 25
_NOISE = 3.0  # grey levels; what of it is above the quantiser costs bits, as in a real camera's
_QUANTISER = 5
_FALL = 1.5  # amplitude over frequency: a little smoother than nature, as what was scaled up is


class Recipe(NamedTuple):
    """How a file is made. ``packed``: with its B-pictures packed as in HMDB-51."""

    codec: str
    width: int = 320
    height: int = 240
    frames: int = 180
    key_every: int = 12
    b_frames: int = 0
    packed: bool = False


def make_video(path: Path, recipe: Recipe, seed: int) -> None:
    """Write one file, AVI or what its suffix says; the same arguments give the same pictures."""
    with av.open(path, "w") as container:
        stream = _stream(container, recipe)
        pictures = chain(_pictures(recipe, seed), (None,))
        packets = [packet for picture in pictures for packet in stream.encode(picture)]
        if recipe.packed:
            datas = pack_b_pictures([bytes(packet) for packet in packets])
            packets = [new_packet(data, stream, i, is_key=i < 2) for i, data in enumerate(datas)]
        container.mux(packets)


def new_packet(data: bytes, stream: VideoStream, number: int, *, is_key: bool) -> Packet[Any]:
    """A packet for a container that counts in frames."""
    packet: Packet[Any] = Packet(data)
    packet.stream = stream
    packet.pts = packet.dts = number
    packet.time_base = Fraction(1, _FPS)
    packet.is_keyframe = is_key
    return packet


def pack_b_pictures(pictures: list[bytes]) -> Iterator[bytes]:
    """Packs the packets of an MPEG-4 stream, one for each picture, as DivX and Xvid do for players
    that show a picture for each packet. FFmpeg reads such files but has no encoder for them.

    A B-picture is put behind the reference picture that is shown after it; further ones follow. The
    place that is then left gets a picture that is not coded. As in HMDB-51, a packet of one byte,
    flagged as key, fills the place of the picture that is shown one later than it is decoded.
    """
    groups: list[list[bytes]] = []  # a reference picture, and those that are shown before it
    for picture in pictures:
        if _vop(picture) >> 6 == _B_VOP:
            groups[-1].append(picture)
        else:
            groups.append([picture])
    headers, group, first = groups.pop(0)[0].partition(_MPEG4_GROUP)  # of pictures
    yield headers + _DIVX + group + first
    yield b"\x7f"
    for reference, *between in groups:
        yield b"".join((reference, *between[:1]))
        yield from between[1:]
        if between:
            yield _not_coded(reference)


def _vop(picture: bytes) -> int:
    """The byte behind a picture's start code."""
    return picture[picture.index(_MPEG4_VOP) + len(_MPEG4_VOP)]


def _not_coded(picture: bytes) -> bytes:
    """A P-VOP of the same time that is not coded, as short as it can be."""
    header = picture.partition(_MPEG4_VOP)[2][:8]
    bits = format(int.from_bytes(header, "big"), "064b")
    seconds = bits.index("0", 2) - 2  # since the picture before, in ones
    told = 2 + seconds + 1 + 1 + _TIME_BITS + 1  # type, seconds, 0, marker, time, marker
    bits = "01" + bits[2:told] + "00"  # not coded; stuffing begins with 0, and goes on with ones
    length = -(-len(bits) // 8)
    return _MPEG4_VOP + int(bits.ljust(8 * length, "1"), 2).to_bytes(length, "big")


def _pictures(recipe: Recipe, seed: int) -> Iterator[av.VideoFrame]:
    rng = np.random.default_rng(seed)
    width, height = recipe.width, recipe.height
    # Luma and the two chroma planes, each a picture without edges: it is rolled, not extended.
    back = [_texture(rng, height // s, width // s, spread) for s, spread in _PLANES]
    front = [_texture(rng, height // s, width // s, spread) for s, spread in _PLANES]
    disc = _disc(height, width, height // 5)
    noise = rng.normal(0, _NOISE, (height, width)).astype(np.int16)
    pan, drift = rng.uniform(1, 3, 2) * rng.choice((-1, 1), 2), rng.uniform(-5, 5, 2)
    for i in range(recipe.frames):
        pan_by, drift_by = (np.rint(i * speed / 2).astype(int) * 2 for speed in (pan, drift))
        planes = []
        for (step, _), behind, before in zip(_PLANES, back, front, strict=True):
            mask = np.roll(disc[::step, ::step], drift_by // step, (0, 1))
            moved = np.roll(behind, pan_by // step, (0, 1))
            planes.append(np.where(mask, np.roll(before, drift_by // step, (0, 1)), moved))
        planes[0] += np.roll(noise, rng.integers((height, width)), (0, 1))
        lines = np.concatenate([plane.clip(16, 235).reshape(-1) for plane in planes])
        picture = lines.astype(np.uint8).reshape(height * 3 // 2, width)
        frame = av.VideoFrame.from_ndarray(picture, "yuv420p")
        frame.pts = i
        yield frame


_PLANES = ((1, 40), (2, 12), (2, 12))  # subsampling, contrast


def _texture(rng: np.random.Generator, height: int, width: int, contrast: float) -> Plane:
    """A random picture around 128 with a 1/f amplitude spectrum, [height, width]."""
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    frequency = np.hypot(down, across)
    frequency[0, 0] = np.inf
    picture = np.fft.irfft2(
        np.fft.rfft2(rng.normal(size=(height, width))) / frequency**_FALL, (height, width)
    )
    return cast(Plane, (128 + contrast * picture / picture.std()).astype(np.int16))


def _disc(height: int, width: int, radius: int) -> npt.NDArray[np.bool_]:
    y, x = np.ogrid[:height, :width]
    return np.hypot(y - height / 2, x - width / 2) < radius


def _stream(container: av.container.OutputContainer, recipe: Recipe) -> VideoStream:
    stream = cast(VideoStream, container.add_stream(recipe.codec, rate=_FPS))
    stream.width, stream.height = recipe.width, recipe.height
    stream.pix_fmt = "yuvj420p" if recipe.codec == "mjpeg" else "yuv420p"
    codec = stream.codec_context
    codec.gop_size, codec.max_b_frames = recipe.key_every, recipe.b_frames
    if recipe.codec == "mpeg4":
        codec.codec_tag = "DX50" if recipe.packed else "xvid"
    if recipe.codec == "libx264":
        codec.options = {"crf": "23", "preset": "fast", "sc_threshold": "0"}
    else:
        # No key frames of the encoder's own choice, so that they are where the recipe says.
        fixed = {"qmin": str(_QUANTISER), "qmax": str(_QUANTISER)}
        codec.options = {**fixed, "sc_threshold": "1000000000"}
    if recipe.packed:
        codec.flags |= Flags.bitexact  # no user data of FFmpeg's own
    return stream
