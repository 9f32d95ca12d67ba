"""The file that was indexed is the file that is decoded."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from tests.support import sounds
from tests.support.videos import make_avi
from videoload import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec, one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import UnreadableError
from videoload.storage.content import fingerprint_text

SPEC = ClipSpec(frames=4, stride=3, size=(32, 32))


def replaced(path: Path, other: Path) -> None:
    """Another file takes the place of one."""
    shutil.copy(other, f"{path}.new")
    Path(f"{path}.new").replace(path)


def overwritten(path: Path, other: Path) -> None:
    """The file has another content, and is as old and as large as before."""
    status, size = path.stat(), max(path.stat().st_size, other.stat().st_size)
    with path.open("r+b") as file:
        file.write(other.read_bytes().ljust(size, b"\0")[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


WAYS = [replaced, overwritten]


@pytest.fixture(params=["avi", "mp4", "matroska"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A file, and another one of as many frames."""
    made = [
        make_avi(tmp_path / name, frames=40, seed=seed, container_format=request.param)
        for seed, name in enumerate(("one", "other"))
    ]
    size = max(path.stat().st_size for path in made)
    for path in made:
        os.truncate(path, size)
    return made[0], made[1]


@pytest.mark.parametrize("change", WAYS)
def test_a_file_that_changes_before_it_is_read_is_opened_anew(
    change: Callable[[Path, Path], None], files: tuple[Path, Path], tmp_path: Path
) -> None:
    one, other = files
    decoder, out, expected = Decoder(tmp_path), *np.empty((2, 1, *SPEC.shape), np.uint8)
    decoder.decode(one.name, SPEC, [Clip(1)], out)  # it is known
    run = decoder.start(one.name, one_clip(SPEC), [Clip(1)], out)
    decoder.rest()
    change(one, other)
    Decoder(tmp_path).decode(other.name, SPEC, [Clip(1)], expected)
    run.finish(lambda: None)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("times", [1, 99])
def test_no_clip_is_half_of_a_file_that_is_written_anew_meanwhile(
    times: int, tmp_path: Path
) -> None:
    one, other = [
        make_avi(tmp_path / name, codec="rawvideo", pixels="bgr24", frames=40, seed=seed)
        for seed, name in enumerate(("one.avi", "other.avi"))
    ]
    spec, content, packets = replace(SPEC, frames=16, stride=1), other.read_bytes(), count()
    decoder, requests = Decoder(tmp_path), [Clip(0, row=Video("", start=0, end=16))]
    out, expected = np.empty((2, 1, *spec.shape), np.uint8)
    decoder.decode(one.name, spec, requests, out)  # it is known
    decoder.decode(other.name, spec, requests, expected)

    def tick() -> None:
        passed, packet = divmod(next(packets), 16)
        if packet == 5 and passed < times:
            one.write_bytes(content)

    if times == 1:
        decoder.decode(one.name, spec, requests, out, tick)
        assert np.array_equal(out, expected)
    else:
        with pytest.raises(UnreadableError) as caught:
            decoder.decode(one.name, spec, requests, out, tick)
        assert caught.value.path == one.name


@pytest.mark.parametrize("rate", [None, 8000])
def test_what_is_told_of_a_clip_is_of_the_file_that_it_was_made_of(
    rate: int | None, tmp_path: Path
) -> None:
    one = make_avi(tmp_path / "one.mp4", frames=40, container_format="mp4")
    other = make_avi(tmp_path / "other.mp4", frames=60, rate=10, seed=1, container_format="mp4")
    spec = ClipSpec(frames=4, fps=5, size=(32, 32), sampling="random", audio_rate=rate)
    decoder, out, expected = Decoder(tmp_path), *np.zeros((2, 1, spec.clip_bytes), np.uint8)
    decoder.decode(one.name, spec, [Clip(5)], out)  # it is known
    run = decoder.start(one.name, one_clip(spec), [Clip(5)], out)
    decoder.rest()
    right = Decoder(tmp_path).start(other.name, one_clip(spec), [Clip(5)], expected).finish()
    replaced(one, other)
    found = run.finish(lambda: None)
    assert np.array_equal(out, expected)
    told = np.empty((2, 1), info_type(one_clip(spec)))
    for decoded, info in zip((found, right), told, strict=True):
        decoded.write_metadata(info)
    assert told[0].tobytes() == told[1].tobytes()
    assert told["num_frames"].tolist() == [[60], [60]]


@pytest.mark.parametrize(  # after packets of its pictures, or of its sound
    ("is_part", "packets"), [(False, 5), (False, 20), (True, 16), (True, 40)]
)
def test_a_clip_has_the_sound_of_the_file_that_it_shows(
    is_part: bool, packets: int, tmp_path: Path
) -> None:
    for name, frames in (("one.avi", 60), ("other.avi", 90)):
        sounds.make(tmp_path / name, frames=frames)
    clip = ClipSpec(frames=10, fps=25, size=(48, 64), audio_rate=8000)
    pair = SampleSpec({"a": replace(clip, audio_rate=None), "b": clip})
    spec = pair if is_part else clip

    def decode(name: str, tick: Callable[[], None] = lambda: None) -> tuple[list[int], bytes]:
        out = np.zeros((1, spec.clip_bytes), np.uint8)
        path = f"{name}\n{name}" if is_part else name
        return Decoder(tmp_path).decode(path, spec, [Clip(5)], out, tick).tolist(), out.tobytes()

    calls, right = count(), [decode("one.avi"), decode("other.avi")]

    def tick() -> None:
        if next(calls) == packets:
            replaced(tmp_path / "one.avi", tmp_path / "other.avi")

    assert decode("one.avi", tick) in right


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_disk_that_fails_in_the_middle_of_a_file_changes_no_picture(
    is_known: bool, share: float, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # FFmpeg takes an error of its reader for the end of the file.
    path, _ = files
    read, begin, results = os.pread, round(share * path.stat().st_size), set[str]()

    def broken(file: int, length: int, at: int) -> bytes:
        if at >= begin:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, min(length, begin - at), at)

    for start in (0, 15, 30):
        decoder, out, expected = Decoder(path.parent), *np.zeros((2, 1, *SPEC.shape), np.uint8)
        asked = [Clip(1, row=Video("", start=start, end=start + 10))]
        Decoder(path.parent).decode(path.name, SPEC, asked, expected)
        if is_known:
            decoder.videos.index(path.name)
        with monkeypatch.context() as patched:
            patched.setattr(os, "pread", broken)
            try:
                decoder.decode(path.name, SPEC, asked, out)
                assert np.array_equal(out, expected)
            except UnreadableError as error:
                results.add(error.reason)
        decoder.decode(path.name, SPEC, asked, out)
        assert np.array_equal(out, expected), "and it is forgotten"
    [reason] = results
    assert os.strerror(errno.EIO) in reason


@pytest.mark.parametrize("tell", [lambda decoder, path: decoder.videos.index(path), Decoder.report])
def test_a_disk_that_fails_while_frames_are_counted_makes_no_video_shorter(
    tell: Callable[[Decoder, str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_avi(tmp_path / "a.avi", codec="cinepak", pixels="rgb24", size=(96, 96), frames=30)
    read = os.pread
    for first in count():  # a complete decode tells its frames, and begins after some reads
        reads, decoder, has_failed = count(), Decoder(tmp_path), False

        def broken(file: int, length: int, at: int) -> bytes:
            if next(reads) >= first:  # noqa: B023 - it is called in this round
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(file, length, at)

        with monkeypatch.context() as patched:
            patched.setattr(os, "pread", broken)
            try:
                tell(decoder, path.name)
            except UnreadableError:
                has_failed = True
        assert decoder.videos.index(path.name).info.num_frames == 30
        if not has_failed:
            break
    assert first > 5


def test_a_file_that_is_not_the_scanned_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["one.avi", "other.avi", "unknown.avi"]
    for seed, name in enumerate(names):
        make_avi(tmp_path / name, frames=20, seed=seed)
    scanned = [fingerprint_text(Decoder(tmp_path).videos.fingerprint(name)) for name in names[:2]]
    catalog = vl.Catalog.from_table(
        {"path": names, "fingerprint": [*scanned, ""]}, root=tmp_path, label=None
    )
    make_avi(tmp_path / "other.avi", frames=20, seed=7)
    for _ in vl.decode_serially(catalog, SPEC, 1, epochs=2):
        pass
    assert [name for name in names if name in caplog.text] == ["other.avi"]
    caplog.clear()
    with vl.Client(workers=1) as client:
        stream = client.stream(catalog, SPEC, 1)
        for _ in stream.batches(epochs=2):
            pass
    assert stream.changed == ["other.avi"]
    assert [name for name in names if name in caplog.text] == ["other.avi"]
