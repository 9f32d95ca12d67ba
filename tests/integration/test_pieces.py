"""A recording in pieces is the recording: a file, cut without decoding it, gives what it gave."""

import csv
import pickle
import re
import shutil
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest

import videoload as vl
from tests.support import sounds
from tests.support.digests import digests
from tests.support.thorough import rest_nightly
from tests.support.videos import KEYFRAME_EVERY, make_avi
from videoload import Catalog, Client, ClipSpec, VideoError, decode_serially
from videoload.catalog.sources import load
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder
from videoload.tools.scan import scan

PIECES = 11  # 10.avi comes after 9.avi
FRAMES = (PIECES - 1) * KEYFRAME_EVERY + 5


def cut(path: Path, out: Path, key_frames: int = 1) -> list[Path]:
    """Write the packets of an AVI into 0.avi, 1.avi, ... of so many key frames each."""
    out.mkdir(parents=True, exist_ok=True)
    with av.open(str(path)) as source:
        stream = source.streams.video[0]
        groups: list[list[Any]] = []
        for packet in source.demux(stream):
            if packet.size:
                groups += [[]] if packet.is_keyframe else []
                groups[-1].append(packet)
        made: list[Path] = []
        for first in range(0, len(groups), key_frames):
            packets = [packet for group in groups[first : first + key_frames] for packet in group]
            made.append(out / f"{len(made)}.avi")
            with av.open(str(made[-1]), "w") as piece:
                copy = cast(Any, piece).add_stream_from_template(stream)
                for number, packet in enumerate(packets):
                    packet.stream, packet.dts, packet.pts = copy, number, number
                    piece.mux(packet)
    return made


def make_pieces(root: Path, **how: Any) -> Path:
    """``root``/whole.avi, and the same in ``root``/run/0.avi, 1.avi, ..., 10.avi."""
    make_avi(root / "whole.avi", frames=FRAMES, **how)
    assert len(cut(root / "whole.avi", root / "run")) == PIECES
    return root


CHAIN = r"(run)/\d+\.avi"
SPECS: dict[str, dict[str, Any]] = {
    "random": {"sampling": "random", "crop": "random", "flip": True, "clips_per_video": 6},
    "dense": {"sampling": "dense", "hop": 3},
    "a second": {"sampling": "dense", "fps": 10, "stride": 1, "hop_s": 0.5},
    "longer than a piece": {"frames": 40, "stride": 3, "short": "zero", "sampling": "random"},
    "held ends": {"sampling": "dense", "hop": 2, "edges": "hold", "frames": 15},
    "views": {"views": 2, "sampling": "random", "pixels": "gray", "jitter": (0.2, 0.2, 0.2, 0.1)},
    "transformed": {
        "sampling": "random", "transform": "tests.support.transforms:grey_floats",
        "output": ((8, 40, 40), "float32"),
    },
    "parts of the whole": {"span": "video", "sampling": "random", "clips_per_video": 3},
    "looped": {"frames": 80, "short": "loop", "sampling": "random"},
    "black ends": {"sampling": "dense", "hop": 2, "edges": "zero", "frames": 15},
}  # fmt: skip


def spec(**changes: Any) -> ClipSpec:
    usual: dict[str, Any] = {"frames": 8, "resize": 48, "size": (40, 40)}
    usual["stride"] = 1 if "span" in changes else 2
    return ClipSpec(**usual | changes)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pieces(tmp_path_factory.mktemp("pieces"))


@pytest.fixture(scope="module")
def whole(root: Path) -> Catalog:
    return Catalog(["whole.avi"], root=root)


@pytest.fixture(scope="module")
def pieces(root: Path) -> Catalog:
    found = Catalog.from_folder(root, chain=r"^(run)/", label=None)
    assert sorted(path.count(" // ") for path in found.paths) == [0, PIECES - 1]
    return found.subset([max(range(2), key=lambda row: len(found.paths[row]))])


def stream(catalog: Catalog, clip: ClipSpec, **options: Any) -> list[str]:
    made = decode_serially(catalog, clip, 3, seed=2, drop_remainder=False, info=True, **options)
    return digests((clips, labels, told._replace(path=told.clip)) for clips, labels, told in made)


@pytest.mark.parametrize("kind", rest_nightly(SPECS, len(SPECS) - 3))
def test_clips_are_those_of_the_recording(whole: Catalog, pieces: Catalog, kind: str) -> None:
    clip = spec(**SPECS[kind])
    assert stream(pieces, clip, epochs=2) == stream(whole, clip, epochs=2)


def test_segments_count_over_the_whole(root: Path, pieces: Catalog) -> None:
    table = {"start_s": [0.4, 2.0], "end_s": [1.0, 4.6], "name": ["whole.avi", pieces.paths[0]]}
    both = Catalog.from_table(table | {"name": ["whole.avi"] * 2}, root, path="name")
    own = Catalog.from_table(table | {"name": [pieces.paths[0]] * 2}, root, path="name")
    assert stream(own, spec()) == stream(both, spec())
    ends: dict[str, Any] = {"starts": [10], "ends": [FRAMES]}
    dense = spec(sampling="dense")
    assert stream(Catalog(pieces.paths, root=root, **ends), dense) == stream(
        Catalog(["whole.avi"], root=root, **ends), dense
    )


def test_an_open_recording_has_all_frames(root: Path, pieces: Catalog) -> None:
    files = [root / "run" / f"{number}.avi" for number in range(PIECES)]
    with vl.open(root / "whole.avi") as one, vl.open(files) as many:
        assert (len(many), many.fps, many.size, many.codec) == (FRAMES, 25, one.size, "mpeg4")
        assert many.is_proven
        np.testing.assert_array_equal(many[:], one[:])
        np.testing.assert_array_equal(np.stack(list(many)), one[:])
        np.testing.assert_array_equal(many.frames([40, 3, -1, 3]), one.frames([40, 3, -1, 3]))
        np.testing.assert_array_equal(many.times, one.times)
        np.testing.assert_array_equal(many.at(1.5), one.at(1.5))
        with pickle.loads(pickle.dumps(many)) as copy:
            np.testing.assert_array_equal(copy[60], one[60])
        assert "(11 pieces)" in repr(many)
    with vl.open(f"{root}/{pieces.paths[0]}") as many:
        assert len(many) == FRAMES
    with pytest.raises(vl.SpecError):
        vl.open([])


def test_a_worker_opens_no_piece_outside_of_its_root(root: Path, tmp_path: Path) -> None:
    make_avi(tmp_path / "a" / "0.avi", frames=12)
    make_avi(tmp_path / "secret.avi", frames=12)
    decoder, clip = Decoder(tmp_path / "a"), spec()
    out = np.empty((1, *clip.shape), np.uint8)
    for path in ("0.avi // ../secret.avi", f"0.avi // {tmp_path}/secret.avi"):
        with pytest.raises(VideoError, match=r"secret\.avi"):
            decoder.decode(path, clip, [Clip(0)], out)
    with pytest.raises(vl.CatalogError, match="secret"):
        Catalog([["0.avi", "../secret.avi"]], root=tmp_path / "a")


# A piece that is bad


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    shutil.copytree(root / "run", tmp_path / "run")
    return tmp_path


def missing(piece: Path) -> str:
    piece.unlink()
    return "opened"


def of_another_size(piece: Path) -> str:
    make_avi(piece, frames=12, size=(48, 64))
    return "64x48 .*96x72 "


def turned(piece: Path) -> str:
    make_avi(piece.with_suffix(".mp4"), frames=12, container_format="mp4", degrees=90)
    piece.with_suffix(".mp4").replace(piece)
    return "96x72 .*90"


def no_video(piece: Path) -> str:
    piece.write_text("nothing")
    return "video"


SPOILS = [missing, of_another_size, no_video, turned]


@pytest.mark.parametrize("spoil", rest_nightly(SPOILS, 2))
def test_a_bad_piece_is_named(copy: Path, root: Path, client: Client, spoil: Any) -> None:
    files = [f"run/{number}.avi" for number in range(PIECES)]
    reason = f"piece run/4.avi: .*{spoil(copy / files[4])}"
    whole = make_avi(copy / "whole.avi", frames=30)
    catalog = Catalog([files, whole.name], root=copy)
    stream = client.stream(catalog, spec(), 1, max_bad=1.0)
    assert len([*stream.batches(epochs=1)]) == 2
    assert [bad.path for bad in stream.quarantine] == [catalog.paths[0]]
    assert re.match(reason, stream.quarantine[0].reason)
    with pytest.raises(VideoError, match=reason.removeprefix("piece run/")):
        vl.open([copy / file for file in files])
    rows = scan(catalog, processes=1)
    assert [row.good for row in rows] == [False, True]
    assert re.match(reason, rows[0].damage)


def test_a_recording_with_another_piece_has_another_fingerprint(copy: Path) -> None:
    [path] = Catalog.from_folder(copy, chain=CHAIN, label=None).paths
    decoder = Decoder(copy)
    found = decoder.videos.fingerprint(path)
    decoder.videos.info(path, lambda: None)  # its pieces are known
    assert decoder.videos.fingerprint(path) == decoder.videos.fingerprint(path) == found
    make_avi(copy / "run/4.avi", frames=12, seed=1)
    assert decoder.videos.fingerprint(path) not in (found, 0)


def test_a_damaged_piece_is_named_by_a_scan(copy: Path) -> None:
    data = bytearray((copy / "run/3.avi").read_bytes())
    at = data.index(b"movi") + 400  # in the first picture
    data[at : at + 60] = bytes(60)
    (copy / "run/3.avi").write_bytes(data)
    catalog = Catalog.from_folder(copy, chain=CHAIN, label=None)
    [row] = scan(catalog, processes=1, output=copy / "scan.csv")
    assert (row.frames, row.header_frames, row.key_frames) == (FRAMES, FRAMES, PIECES)
    assert row.damage.startswith("run/3.avi: ")
    with (copy / "scan.csv").open() as lines:
        assert next(csv.DictReader(lines))["path"] == catalog.paths[0]
    for again in (load(copy / "scan.csv", None), load(copy, None, chain=CHAIN)):
        assert again.paths == catalog.paths  # as the commands read it
    journal = copy / "scan.csv.progress"
    before = journal.read_bytes()
    assert scan(catalog, processes=1, output=copy / "scan.csv") == [row]
    assert journal.read_bytes() == before, "nothing was decoded again"
    make_avi(copy / "run/5.avi", frames=13)
    [changed] = scan(catalog, processes=1, output=copy / "scan.csv")
    assert changed.frames != row.frames


def test_sound_goes_on_over_a_seam(tmp_path: Path) -> None:
    for number in range(3):  # the third begins with a quiet click's frame elsewhere
        sounds.make(tmp_path / f"{number}.avi", frames=20, rate=48_000)
    sounds.make(tmp_path / "3.avi", frames=20, sound=None)
    files = [f"{number}.avi" for number in range(4)]
    clip = ClipSpec(
        frames=30, fps=25, size=(48, 64), sampling="dense", hop_s=0.28, audio_rate=48_000
    )
    own = [sounds.whole(tmp_path / name, 48_000)[0, : 20 * 1920] for name in files[:3]]
    line = np.concatenate([*own, np.zeros(20 * 1920, np.float32)])
    seen = 0
    catalog = Catalog([files], root=tmp_path)
    for clips, _, info in decode_serially(catalog, clip, 1, info=True, drop_remainder=False):
        first = int(info.frames[0, 0])
        sound = cast(Any, clips)["audio"][0]
        np.testing.assert_array_equal(sound, line[first * 1920 :][: len(sound)])
        assert info.has_audio is not None
        assert info.has_audio.all()
        seen += 1
    assert seen == 8
