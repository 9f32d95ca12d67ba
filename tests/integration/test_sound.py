"""The sound of a clip: aligned to its first frame, the same as a complete decode gives, and the
same from every worker."""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest

from tests.support import sounds
from tests.support.avi_files import Chunk, join, split
from tests.support.mp4_files import empty_samples
from tests.support.thorough import rest_nightly
from videoload import Catalog, ClipSpec, VideoError, decode_serially
from videoload.decoding.decoder import Decoder

RATE = 16_000
CLIP = ClipSpec(frames=15, fps=25, size=(48, 64), sampling="random", audio_rate=RATE)

KINDS: dict[str, dict[str, Any]] = {
    "pcm.avi": {},
    "mp3.avi": {"sound": "libmp3lame"},
    "low.avi": {"sound": "libmp3lame", "rate": 22_050, "layout": "mono"},
    "lowest.mp4": {"sound": "libmp3lame", "rate": 24_000, "layout": "mono", "bit_rate": 8_000},
    "adpcm.avi": {"sound": "adpcm_ms", "rate": 22_050},
    "aac.mp4": {"video": "libx264", "sound": "aac"},
    "late.mp4": {"video": "libx264", "sound": "aac", "late_s": 0.2},
    "late.mkv": {"video": "libx264", "sound": "aac", "late_s": 0.2},
    "mp3.mkv": {"sound": "libmp3lame"},
    "flac.mkv": {"sound": "flac"},
    "pcm.mkv": {},
    "opus.webm": {"video": "libvpx", "sound": "libopus", "rate": 48_000},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each kind, one without sound, and two AVIs as other writers make them."""
    root = tmp_path_factory.mktemp("sounds")
    for name, how in KINDS.items():
        sounds.make(root / "a" / name, **how)
    sounds.make(root / "a" / "silent.avi", sound=None)
    mp3 = (root / "a" / "mp3.avi").read_bytes()
    (root / "b").mkdir()
    (root / "b" / "bytes.avi").write_bytes(_counting_bytes(mp3))
    (root / "b" / "begins.avi").write_bytes(_beginning_later(mp3, packets=8))
    return root


def _header(header: bytes, stream: int) -> int:
    """Where the header of a stream begins."""
    at = -1
    for _ in range(stream + 1):
        at = header.index(b"strh", at + 1)
    return at + 8


def _counting_bytes(data: bytes) -> bytes:
    """Chunks of sound that begin anywhere in a packet, as VirtualDub writes them: their times count
    bytes."""
    header, chunks = split(data)
    changed = bytearray(header)
    at = _header(header, 1)
    struct.pack_into("<II", changed, at + 20, 1, 16_000)
    struct.pack_into("<I", changed, at + 44, 1)
    form = changed.index(b"strf", at) + 8
    struct.pack_into("<IH", changed, form + 8, 16_000, 1)
    sound = b"".join(chunk.data for chunk in chunks if chunk.name == b"01wb")
    made = []
    for chunk in chunks:
        if chunk.name != b"01wb":
            made += [chunk, Chunk(b"01wb", sound[:640], is_key=True)]
            sound = sound[640:]
    return join(bytes(changed), [*made, Chunk(b"01wb", sound, is_key=True)])


def _beginning_later(data: bytes, packets: int) -> bytes:
    """The same sound, so many packets later."""
    header, chunks = split(data)
    changed = bytearray(header)
    struct.pack_into("<I", changed, _header(header, 1) + 28, packets)
    return join(bytes(changed), chunks)


def heard(root: Path, name: str, spec: ClipSpec = CLIP, epochs: int = 2) -> list[Any]:
    """The first sample of each batch of one file, and its info."""
    catalog = Catalog([name], [0], ["a"], root)
    return [
        ({key: each[0] for key, each in cast(Any, clips).items()}, info)
        for clips, _, info in decode_serially(catalog, spec, 1, epochs=epochs, info=True, seed=2)
    ]


FILES = [*(f"a/{name}" for name in KINDS), "b/bytes.avi", "b/begins.avi"]


@pytest.mark.parametrize(("rate", "channels"), rest_nightly([(16_000, 1), (48_000, 2)]))
@pytest.mark.parametrize("name", FILES)
def test_a_clip_has_what_a_complete_decode_has(
    root: Path, name: str, rate: int, channels: int
) -> None:
    spec = ClipSpec(
        frames=15,
        fps=25,
        size=(48, 64),
        sampling="random",
        audio_rate=rate,
        audio_channels=channels,
    )
    compare(root, name, spec, epochs=4)


def compare(root: Path, name: str, spec: ClipSpec, epochs: int) -> None:
    """Clips of a file, with what FFmpeg makes of its sound as a whole."""
    assert spec.audio_rate is not None
    whole = sounds.whole(root / name, spec.audio_rate, spec.audio_channels)
    with av.open(str(root / name), metadata_errors="replace") as container:
        video = container.streams.video[0]
        start = (video.start_time or 0) * (video.time_base or 0)
        late_s = 0.0 if name.endswith(".avi") else float(start)
    for sample, info in heard(root, name, spec, epochs):
        sound = np.atleast_2d(sample["audio"])
        first = round((late_s + info.times[0, 0]) * spec.audio_rate)
        wanted = np.zeros_like(sound)
        there = whole[:, first : first + sound.shape[1]]
        wanted[:, : there.shape[1]] = there
        differs = np.abs(sound - wanted)
        differs[:, max(0, there.shape[1] - 100) : there.shape[1] + 100] = 0  # its resampler's end
        assert differs.max() <= 1e-6


def real_files() -> list[str]:
    folder = Path(os.environ.get("VIDEOLOAD_AVI", "/nowhere"))
    found = []
    for path in sorted(folder.rglob("*.avi")):
        try:
            with av.open(str(path), metadata_errors="replace") as container:
                if container.streams.video and container.streams.best("audio") is not None:
                    found.append(str(path.relative_to(folder)))
        except (av.error.FFmpegError, UnicodeDecodeError):
            continue
    return found


@pytest.mark.skipif(not real_files(), reason="VIDEOLOAD_AVI names no folder of real AVI files")
@pytest.mark.parametrize("name", real_files())
def test_clips_of_real_files_have_what_a_complete_decode_has(name: str) -> None:
    spec = ClipSpec(
        frames=8, fps=10, size=(32, 40), crop="stretch", sampling="random", audio_rate=RATE
    )
    compare(Path(os.environ["VIDEOLOAD_AVI"]), name, spec, epochs=3)


def test_a_file_without_sound_is_silent_and_says_so(root: Path) -> None:
    [(sample, info)] = heard(root / "a", "silent.avi", epochs=1)
    assert not Decoder(root / "a").videos.audio_codec("silent.avi")
    assert info.has_audio.tolist() == [False]
    assert sample["audio"].shape == (9_600,)
    assert (sample["audio"] == 0).all()
    assert sample["video"].any()


def copy(source: Path, to: Path, keep: Callable[[Any], bool]) -> None:
    """The packets of a file that are to be kept."""
    with av.open(str(source)) as read, av.open(str(to), "w") as written:
        copies = [written.add_stream_from_template(stream) for stream in read.streams]
        for packet in read.demux():
            if packet.dts is not None and keep(packet):
                packet.stream = copies[packet.stream.index]
                written.mux(packet)


def test_beyond_the_ends_a_window_around_a_moment_is_silent(root: Path) -> None:
    catalog = Catalog(["a/pcm.avi"] * 2, root=root, at=[1, 98])
    spec = ClipSpec(8, fps=sounds.FPS, audio_rate=RATE, size=(32, 32), sampling="at", edges="hold")
    clips, _, info = next(decode_serially(catalog, spec, 2, info=True))
    assert info.frames.tolist() == [[-1, -1, -1, 0, 1, 2, 3, 4], [94, 95, 96, 97, 98, 99, -1, -1]]
    whole = sounds.whole(root / "a/pcm.avi", RATE)[0]
    sound, frame = clips["audio"], RATE // sounds.FPS
    for row, begin in ((0, -3), (1, 94)):
        wanted = np.zeros(8 * frame, np.float32)
        there = whole[max(0, begin) * frame :][: (8 + min(0, begin)) * frame]
        at = max(0, -begin) * frame
        wanted[at : at + len(there)] = there
        assert np.abs(sound[row] - wanted).max() < 0.02


def test_a_gap_is_silence_and_what_follows_keeps_its_time(tmp_path: Path) -> None:
    """Half a second of packets is missing, and the times of the others tell."""
    sounds.make(tmp_path / "whole.mkv", sound="flac", rate=16_000)
    lost: list[float] = []

    def keep(packet: Any) -> bool:
        at_s = float((packet.pts or 0) * packet.time_base)
        if packet.stream.type == "audio" and 1.0 < at_s < 1.9:
            lost.extend((at_s, at_s + float((packet.duration or 0) * packet.time_base)))
            return False
        return True

    copy(tmp_path / "whole.mkv", tmp_path / "gap.mkv", keep)
    begin_s, end_s = lost[0], lost[-1]
    assert end_s - begin_s > 0.5
    spec = ClipSpec(frames=50, fps=25, size=(48, 64), audio_rate=RATE)
    [(with_gap, info)] = heard(tmp_path, "gap.mkv", spec, epochs=1)
    [(without, _)] = heard(tmp_path, "whole.mkv", spec, epochs=1)
    begin, end = (round((at_s - info.times[0, 0]) * RATE) for at_s in (begin_s, end_s))
    assert (with_gap["audio"][begin + 20 : end - 20] == 0).all()
    for part in (slice(0, begin - 20), slice(end + 20, None)):
        np.testing.assert_array_equal(with_gap["audio"][part], without["audio"][part])
    assert np.abs(with_gap["audio"][end:]).max() > 0.5


@pytest.mark.parametrize("late_s", [0, 2])
def test_a_picture_that_begins_after_the_sound_is_named(
    late_s: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A player counts seconds from the sound, and rows count them from the picture."""
    with av.open(str(tmp_path / "late.mkv"), "w") as file:
        picture, sound = file.add_stream("mjpeg", rate=10), file.add_stream("pcm_s16le", rate=8000)
        picture.width, picture.height, picture.pix_fmt = 32, 32, "yuvj420p"
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), "s16", "mono")
        silence.sample_rate, silence.pts = 8000, 0
        file.mux(sound.encode(silence))
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))
            frame.pts, frame.time_base = number + 10 * late_s, Fraction(1, 10)
            file.mux(picture.encode(frame))
        file.mux([*picture.encode(), *sound.encode()])
    catalog = Catalog(["late.mkv"], root=tmp_path, starts_s=[0.2], ends_s=[0.3])
    ((_, _, info),) = decode_serially(catalog, ClipSpec(frames=1, size=32), 1, info=True)
    assert info.frames.tolist() == [[2]]
    at = late_s + 0.2
    spec = ClipSpec(frames=1, size=32, seconds="file")
    for path in ("late.mkv", ["late.mkv", "late.mkv"]):  # of several pieces, the first one says it
        rows = Catalog([path], root=tmp_path, starts_s=[at], ends_s=[at + 0.1])
        both = Catalog.side_by_side(x=rows, y=Catalog([path], root=tmp_path))
        moment = Catalog([path], root=tmp_path, at_s=[at])
        for of, clip in (
            (rows, spec),
            (rows, replace(spec, sampling="dense")),
            (both, {"x": spec, "y": ClipSpec(frames=1, size=32)}),
            (moment, replace(spec, sampling="at")),
        ):
            ((_, _, info),) = decode_serially(of, cast(Any, clip), 1, info=True)
            assert info.frames.tolist() == [[2]]
            assert info.times.ravel() == pytest.approx([at])
    lines = [line for line in caplog.messages if "late.mkv" in line]
    assert len(lines) == bool(late_s)
    assert all("2 s" in line for line in lines)


def test_an_empty_packet_is_a_short_gap_and_not_the_end(tmp_path: Path) -> None:
    tone = np.sin(np.arange(4 * RATE, dtype=np.float32) / 5)
    whole = sounds.make(tmp_path / "whole.mp4", sound="aac", rate=RATE, samples=tone)
    empty = empty_samples(whole.read_bytes(), {30}.__contains__, track=1)
    (tmp_path / "empty.mp4").write_bytes(empty)
    spec = replace(CLIP, frames=50, sampling="center")
    [(with_all, _)] = heard(tmp_path, "whole.mp4", spec, epochs=1)
    [(with_gap, _)] = heard(tmp_path, "empty.mp4", spec, epochs=1)
    differs = np.flatnonzero(np.abs(with_all["audio"] - with_gap["audio"]) > 1e-6)
    assert 0 < np.ptp(differs) < 3 * 1024


@pytest.mark.parametrize("name", ["cut.mkv", "cut.ts", "cut.mp4"])
def test_sound_begins_with_the_first_frame_that_comes_out(name: str, tmp_path: Path) -> None:
    """The pictures before it refer to one that was cut off."""
    whole = sounds.make(tmp_path / f"whole.{name[4:]}", video="libx264", sound="aac", key_every=25)
    dropped = iter(range(10))
    copy(whole, tmp_path / name, lambda p: p.stream.type != "video" or next(dropped, None) is None)
    spec = replace(CLIP, frames=50, sampling="center")
    [(sample, _)] = heard(tmp_path, name, spec, epochs=1)
    white = np.flatnonzero(sample["video"].mean(axis=(1, 2, 3)) > 128)
    assert len(white) == 5
    for number in white:
        near = round(number * RATE / sounds.FPS)
        window = np.abs(sample["audio"][max(0, near - 300) : near + 300])
        assert abs(max(0, near - 300) + window.argmax() - near) <= 40
        assert window.max() > 0.5


@pytest.mark.parametrize(
    ("name", "sound", "layout"),
    [("a.mp4", "aac", "7.1"), ("o.mkv", "libopus", "7.1"), ("f.mkv", "flac", "7.1"),
     ("p.mov", "pcm_s16le", "7.1"), ("s.mp4", "aac", "5.1(side)"), ("d.mp4", "aac", "6.1")],
)  # fmt: skip
def test_many_channels_are_mixed(name: str, sound: str, layout: str, tmp_path: Path) -> None:
    """PyAV tells nine planes of eight, and cannot free those of a MOV, with an order of its own. An
    MP4's header does not tell the channels of some AAC."""
    made = sounds.make(tmp_path / name, sound=sound, rate=48_000, layout=layout)
    if name == "p.mov":  # as other writers tell the same channels: sides before backs
        told = b"chan" + bytes(4) + struct.pack(">III", 1 << 16, 0x63F, 0)
        assert told in made.read_bytes()
        other = b"chan" + bytes(4) + struct.pack(">III", 128 << 16 | 8, 0, 0)
        made.write_bytes(made.read_bytes().replace(told, other))
    both = replace(CLIP, audio_channels=2)
    [(sample, info)] = heard(tmp_path, name, both, epochs=1)
    assert info.has_audio.tolist() == [True]
    assert Decoder(tmp_path).videos.audio_codec(name)
    for number in filter(sounds.is_white, info.frames[0].tolist()):
        at = round((number / sounds.FPS - info.times[0, 0]) * RATE)
        if 200 < at < sample["audio"].shape[1] - 200:
            loudest = np.abs(sample["audio"]).argmax(axis=1)
            assert np.abs(sample["audio"][:, at - 5 : at + 6]).max() > 0.3, loudest


@pytest.mark.parametrize(
    ("coded", "first", "then"),
    [("adts", (48_000, "stereo"), (32_000, "stereo")), ("adts", (32_000, "mono"), (48_000, "mono")),
     ("ac3", (48_000, "stereo"), (48_000, "5.1"))],
)  # fmt: skip
def test_a_track_whose_form_changes_is_heard_on(
    coded: str, first: tuple[int, str], then: tuple[int, str], tmp_path: Path
) -> None:
    """Each part has a tone of its own, and lasts for two seconds."""
    _write(
        tmp_path / "a.ts", coded, first[0],
        [*_tone(coded, *first, 500), *_tone(coded, *then, 900)],
    )  # fmt: skip
    for begin, tone in ((0.5, 500), (2.2, 900), (3.2, 900)):
        assert abs(_tone_at(tmp_path / "a.ts", begin) - tone) < 6


@pytest.mark.parametrize("begin", [0.5, 1.3, 2.6, 3.4])
def test_a_decoder_that_begins_inside_of_a_packet_does_not_hear_another_rate(
    begin: float, tmp_path: Path
) -> None:
    """What repeats itself, as a tone does, may look like a header of MP3 each time."""
    _write(tmp_path / "a.vob", "mp3", 48_000, [*_tone("mp3", 48_000, "stereo", 500)] * 2)
    assert abs(_tone_at(tmp_path / "a.vob", begin) - 500) < 6


@pytest.mark.parametrize(("coded", "rate"), [("ac3", 32_000), ("mp3", 24_000), ("mp3", 44_100)])
def test_where_the_rate_of_an_avi_changes_the_clip_is_bad(
    coded: str, rate: int, tmp_path: Path
) -> None:
    packets = [*_tone(coded, 48_000, "stereo", 500), *_tone(coded, rate, "stereo", 900)]
    _write(tmp_path / "a.avi", coded, 48_000, packets)
    assert abs(_tone_at(tmp_path / "a.avi", 0.5) - 500) < 6
    for begin in (1.8, 2.2, 3.2):
        with pytest.raises(VideoError, match=r"a\.avi: .* audio"):
            _tone_at(tmp_path / "a.avi", begin)


def _tone_at(path: Path, begin: float) -> float:
    """The loudest frequency in a third of a second of a file."""
    row = {"path": [path.name], "start_s": [begin], "end_s": [begin + 0.32]}
    spec = ClipSpec(8, fps=25, size=(48, 64), audio_rate=RATE)
    catalog = Catalog.from_table(row, root=path.parent)
    clips, _, _ = next(decode_serially(catalog, spec, 1, info=True, on_error="raise"))
    waves = np.abs(np.fft.rfft(clips["audio"][0] * np.hanning(clips["audio"].shape[1])))
    return float(waves.argmax() / 0.32)


def _write(path: Path, coded: str, rate: int, packets: list[tuple[bytes, float]]) -> None:
    """A file of four seconds of pictures, with these packets of sound: see `_tone`."""
    form = {".ts": "mpegts", ".vob": "vob", ".avi": "avi"}[path.suffix]
    with av.open(str(path), "w", format=form) as out:
        pictures: Any = out.add_stream("mpeg2video", rate=25)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        sound = out.add_stream("aac" if coded == "adts" else coded, rate=rate)
        frames = [av.VideoFrame(64, 48, "yuv420p") for _ in range(100)]
        at_s, made = 0.0, [packet for frame in (*frames, None) for packet in pictures.encode(frame)]
        for data, lasts_s in packets:
            packet: Any = av.Packet(data)
            packet.stream, packet.time_base = sound, Fraction(1, 90_000)
            packet.pts = packet.dts = round(90_000 * at_s)
            at_s += lasts_s
            made.append(packet)
        for packet in sorted(made, key=lambda each: float((each.dts or 0) * each.time_base)):
            out.mux(packet)


def _tone(coded: str, rate: int, layout: str, tone: int) -> Iterator[tuple[bytes, float]]:
    """Packets of a tone of two seconds, each with how long it lasts, in seconds."""
    file = BytesIO()
    samples = 0.3 * np.sin(np.arange(2 * rate) * (2 * np.pi * tone / rate)).astype(np.float32)
    with av.open(file, "w", format=coded) as out:
        name = {"adts": "aac", "mp3": "libmp3lame"}.get(coded, coded)
        stream: Any = out.add_stream(name, rate=rate, layout=layout)
        for packet in sounds.coded(stream, samples):
            out.mux(packet)
    file.seek(0)
    with av.open(file) as made:
        for packet in cast(Any, made).demux(audio=0):
            if packet.size:
                yield bytes(packet), stream.codec_context.frame_size / rate


def _noise(path: Path) -> None:
    """MP3 whose packets are zeros."""
    header, chunks = split(sounds.make(path, sound="libmp3lame").read_bytes())
    broken = [
        chunk._replace(data=bytes(len(chunk.data))) if chunk.name == b"01wb" else chunk
        for chunk in chunks
    ]
    path.write_bytes(join(header, broken))


def _miscounted(path: Path) -> None:
    """FFmpeg writes a header by which each packet is six seconds behind the one before it."""
    sounds.make(path, sound="eac3", rate=48_000)


@pytest.mark.parametrize("write", [_noise, _miscounted])
def test_sound_that_nobody_can_hear_makes_the_clip_bad(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path / "bad.avi")
    with pytest.raises(VideoError, match=r"bad\.avi: .* audio"):
        list(decode_serially(Catalog(["bad.avi"], [0], ["a"], tmp_path), CLIP, 1, on_error="raise"))
