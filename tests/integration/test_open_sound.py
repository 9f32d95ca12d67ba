"""The sound of files that stay open from one clip to the next: what a file that is opened anew
gives."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support import sounds
from tests.support.avi_files import Chunk, join, split
from tests.support.thorough import either
from videoload import VideoError, native
from videoload.decoding.sounds import Sounds
from videoload.sound.reader import Wanted
from videoload.storage.files import Folder

Floats = npt.NDArray[np.float32]
Heard = bytes | str | None

CLIPS = either(24, 80)
WANTED = Wanted(16_000, 1, 8_000)

KINDS: dict[str, dict[str, Any]] = {
    "pcm.avi": {},
    "mp3.avi": {"sound": "libmp3lame"},
    "adpcm.avi": {"sound": "adpcm_ms", "rate": 22_050},
    "ac3.avi": {"sound": "ac3", "rate": 48_000},  # its decoder draws noise
    "aac.mp4": {"video": "libx264", "sound": "aac"},  # ... here as well
    "mp3.mp4": {"video": "libx264", "sound": "libmp3lame"},
    "opus.mp4": {"video": "libx264", "sound": "libopus", "rate": 48_000},
    "flac.mkv": {"sound": "flac"},
}
STAY = [name for name in KINDS if not name.endswith(".mkv")]


@pytest.fixture(autouse=True, scope="module")
def silence() -> None:
    native.silence_ffmpeg()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("open_sounds")
    for name, how in KINDS.items():
        rate = how.get("rate", 44_100)
        samples = np.random.default_rng(1).normal(0, 0.2, 4 * rate).astype(np.float32).clip(-1, 1)
        sounds.make(root / name, **how, samples=samples)
    return root


def hear(reader: Sounds, name: str, seconds: float) -> Heard:
    try:
        begin = Fraction(round(seconds * 1_000_000), 1_000_000)
        heard = reader.hear(name, lambda: None, begin, WANTED)
    except VideoError as error:
        return str(error)
    return None if heard is None else heard.tobytes()


def moments(name: str) -> list[float]:
    draw = random.Random(name)
    # The second one begins at the packet whose beginning is trimmed.
    return [0.0, 0.251, *(draw.uniform(0, 4.2) for _ in range(CLIPS))]


def compare(root: Path, names: list[str]) -> None:
    """Clips of files in any order, with those of files that are opened for each."""
    clips = [(name, at) for name in names for at in moments(name)]
    wanted = {clip: hear(Sounds(Folder(root)), *clip) for clip in clips}
    reader = Sounds(Folder(root))
    for seed in range(2):
        random.Random(seed).shuffle(clips)
        for clip in clips:
            assert hear(reader, *clip) == wanted[clip], clip
    reader.rest()


def open_files(root: Path) -> Iterator[str]:
    """The names of the files below ``root`` that this process has open."""
    for link in Path("/proc/self/fd").iterdir():
        try:
            path = link.readlink()
        except OSError:
            continue
        if path.is_relative_to(root):
            yield path.name


def test_files_that_are_read_in_turn_give_the_same(root: Path) -> None:
    compare(root, list(KINDS))


@pytest.mark.parametrize("name", KINDS)
def test_an_avi_and_an_mp4_stay_open_until_there_is_nothing_to_do(root: Path, name: str) -> None:
    reader = Sounds(Folder(root))
    for _ in range(10):
        hear(reader, name, 2.0)
    assert list(open_files(root)) == [name] * (name in STAY)
    reader.rest()
    assert not list(open_files(root))


@pytest.mark.parametrize("name", ["pcm.avi", "mp3.avi", "mp3.mp4"])
def test_damaged_files_give_the_same(root: Path, tmp_path: Path, name: str) -> None:
    """What FFmpeg makes of damage depends on what it has read before."""
    data = (root / name).read_bytes()
    begin = data.index(b"movi" if name.endswith("avi") else b"mdat")
    heads = [begin]
    if name.endswith("avi"):
        heads = [begin + 4]
        for chunk in split(data)[1]:
            heads.append(heads[-1] + len(chunk.packed))
    for seed in range(either(3, 20)):
        draw, damaged = random.Random(seed), bytearray(data)
        for _ in range(40):
            at = draw.choice(heads) + draw.randrange(8)
            if len(heads) == 1 or draw.random() < 0.3:
                at = draw.randrange(begin + 8, len(data) - 1_000)
            damaged[at] ^= 1 << draw.randrange(8)
        (tmp_path / f"{seed}_{name}").write_bytes(damaged)
    compare(tmp_path, sorted(os.listdir(tmp_path)))


def test_what_looks_like_a_chunk_where_one_is_damaged_is_the_same(tmp_path: Path) -> None:
    """FFmpeg takes it for one as long as it has read few chunks."""
    made = sounds.make(tmp_path / "made.avi", rate=16_000, layout="mono")
    header, chunks = split(made.read_bytes())
    number = [at for at, each in enumerate(chunks) if each.name == b"00dc"][50]
    fake = b"ab" + Chunk(b"01ab", bytes(300)).packed + bytes(200)
    chunks[number] = chunks[number]._replace(name=b"\xf0\xf0dc", data=fake)
    (tmp_path / "fake.avi").write_bytes(join(header, chunks))
    reader = Sounds(Folder(tmp_path))
    for at in (0.5, 1.0, 0.7, 2.15, 2.2) * 4:
        assert hear(reader, "fake.avi", at) == hear(Sounds(Folder(tmp_path)), "fake.avi", at)
    reader.rest()


def test_a_file_that_was_replaced_is_opened_anew(root: Path, tmp_path: Path) -> None:
    quiet = sounds.make(tmp_path / "quiet.avi", samples=np.zeros(4 * 44_100, np.float32))
    (tmp_path / "x.avi").write_bytes((root / "pcm.avi").read_bytes())
    reader = Sounds(Folder(tmp_path))
    for _ in range(10):
        loud = hear(reader, "x.avi", 2.0)
    assert list(open_files(tmp_path)) == ["x.avi"]
    quiet.rename(tmp_path / "x.avi")
    assert loud != hear(reader, "x.avi", 2.0) == bytes(4 * WANTED.samples)
    reader.rest()


def test_no_more_than_64_files_stay_open(root: Path, tmp_path: Path) -> None:
    names = [f"{number}.avi" for number in range(70)]
    for name in names:
        os.link(root / "pcm.avi", tmp_path / name)
    reader = Sounds(Folder(tmp_path))
    for name in names:
        for _ in range(2):
            hear(reader, name, 2.0)
    assert 50 < len(list(open_files(tmp_path))) <= 64
    reader.rest()
    assert not list(open_files(tmp_path))
