"""Folders of numbered images are videos: what comes out equals FFmpeg's image2, by every way."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest

import videoload as vl
from tests.support.digests import digest
from tests.support.frames import clip_of
from tests.support.image_files import depth, image, scene, write_images
from tests.support.programs import Programs
from videoload import Catalog, Client, ClipSpec, SpecError, VideoError, decode_serially
from videoload.clips.clip_params import clip_params
from videoload.clips.video_info import VideoInfo
from videoload.decoding.decoder import Decoder

FRAMES = 20
KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "jpeg": ("img_{:05}.jpg", scene, {}),
    "png": ("{}.png", scene, {"pixels": "yuv420p"}),
    "bmp": ("b{:03}.bmp", scene, {"pixels": "gray"}),
    "gray": ("g{:02}.png", lambda n: scene(n)[..., 0].copy(), {"pixels": "gray"}),
    "depth": ("MDepth-{:08}.png", depth, {"pixels": "gray16", "scaling": "nearest"}),
    "smooth": ("d{}.png", depth, {"pixels": "gray16"}),
}
HOW: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 1, "drop_remainder": False}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders kind/class/sequence, each with images from number 7 on, and a gap."""
    root = tmp_path_factory.mktemp("images")
    numbers = [7 + i + (i > 9) for i in range(FRAMES)]
    for kind, (name, picture, _) in KINDS.items():
        for sequence in range(3):
            names = [name.format(number) for number in numbers]
            write_images(root / kind / "a" / f"s{sequence}", names, picture)
    return root


def by_image2(folder: Path) -> list[av.VideoFrame]:
    """All frames of a folder, as FFmpeg finds them after a gap was closed."""
    copies = folder.parent.parent / f"closed-{folder.name}"
    copies.mkdir(exist_ok=True)
    files = sorted(folder.iterdir(), key=lambda file: int("".join(filter(str.isdigit, file.stem))))
    for number, file in enumerate(files):
        (copies / f"{number:04}{file.suffix}").write_bytes(file.read_bytes())
    with av.open(str(copies / f"%04d{files[0].suffix}"), format="image2") as container:
        return list(container.decode(video=0))


def spec_of(kind: str, **drawn: Any) -> ClipSpec:
    how = {"sampling": "random", "stride": 2, "resize": 32, "size": (24, 28), **drawn}
    return ClipSpec(frames=4, **how, **KINDS[kind][2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_equals_a_complete_decode_by_image2(kind: str, root: Path) -> None:
    catalog = Catalog.from_folder(root / kind)
    assert [video.path for video in catalog] == ["a/s0", "a/s1", "a/s2"]
    spec, info = spec_of(kind), VideoInfo(FRAMES, Fraction(), 64, 48)
    frames = by_image2(root / kind / "a/s0")
    assert len(frames) == FRAMES
    params, seen = clip_params(spec, info, 0), set()
    for clips, _, told in decode_serially(catalog, spec, **HOW, epochs=3, info=True):
        assert clips.dtype == spec.dtype
        for clip, ordinals in zip(clips, told.frames.tolist(), strict=True):
            expected = clip_of([frames[ordinal] for ordinal in ordinals], spec, info, params)
            np.testing.assert_array_equal(clip, expected)
            seen.update(ordinals)
        assert np.isnan(told.times).all()
    assert len(seen) > 8


def test_workers_here_and_over_tcp_give_what_the_serial_reference_gives(
    root: Path, client: Client, programs: Programs
) -> None:
    how = {**HOW, "epochs": 2, "info": True}
    drawn: dict[str, Any] = {"crop": "resized", "flip": True, "fps": 10, "images_fps": 30}
    expected = {}
    for kind in KINDS:
        catalog, spec = Catalog.from_folder(root / kind), spec_of(kind, stride=1, **drawn)
        expected[kind] = digest(decode_serially(catalog, spec, **how))
        stream = client.stream(catalog, spec, **HOW)
        assert digest(stream.batches(epochs=2, info=True)) == expected[kind]
    with Client(workers=0, listen="tcp://127.0.0.1:*") as far:
        programs.worker(far.endpoints[0], root)
        for kind in ("jpeg", "depth"):
            catalog = Catalog.from_folder(root / kind, root=root)
            stream = far.stream(catalog, spec_of(kind, stride=1, **drawn), **HOW)
            assert digest(stream.batches(epochs=2, info=True)) == expected[kind]


def test_a_rate_is_given_to_images(root: Path) -> None:
    catalog = Catalog.from_folder(root / "png")
    spec = ClipSpec(3, fps=10, size=(48, 64), images_fps=30)
    [(_, _, info)] = decode_serially(catalog, spec, 3, info=True)
    np.testing.assert_array_equal(np.diff(info.frames), 3)
    np.testing.assert_allclose(info.times, info.frames / 30)
    with pytest.raises(VideoError, match=r"has no frame rate; give stride .*images_fps"):
        list(decode_serially(catalog, ClipSpec(3, fps=10, size=(48, 64)), 3, on_error="raise"))
    dense = ClipSpec(3, fps=10, hop_s=0.2, sampling="dense", size=(48, 64), images_fps=30)
    assert len(list(decode_serially(catalog, dense, 1))) == 3 * 3  # of 20 frames, each has 7


def test_flow_is_two_parts_of_one_folder(tmp_path: Path) -> None:
    for name, value in (("flow_x", 100), ("flow_y", 50), ("img", 0)):
        pictures = [f"{name}_{number:05}.png" for number in range(1, 13)]
        shown = [np.full((16, 16), value + n, np.uint8) for n in range(12)]
        write_images(tmp_path / "run/v1", pictures, shown.__getitem__)
    parts: Any = {
        axis: Catalog.from_folder(tmp_path, images=f"flow_{axis}_%05d.png") for axis in ("x", "y")
    }
    assert parts["x"][0].path == "run/v1/flow_x_%05d.png"
    catalog = Catalog.side_by_side(by="frames", **parts)
    spec = {axis: ClipSpec(4, size=(16, 16), pixels="gray") for axis in ("x", "y")}
    [(batch, _)] = decode_serially(catalog, spec, 1)
    flow = cast(dict[str, Any], batch)
    assert flow["x"][0, :, 0, 0, 0].tolist() == [104, 105, 106, 107]
    np.testing.assert_array_equal(flow["x"], flow["y"] + 50)


def test_rgb_depth_of_16_bits_and_bones_stay_in_step(tmp_path: Path, client: Client) -> None:
    """A video of 30 frames a second, depth images at 15 which begin late in some."""
    table = ["rgb,depth,label,depth_offset_s"]
    for number, late_s in enumerate((0.2, 0.0, 0.4, 0.1)):
        name = f"S{number:03}"
        video = tmp_path / f"rgb/a/{name}.avi"
        video.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(video), "w") as container:
            stream: Any = container.add_stream("ffv1", rate=30)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "gray"
            for frame in range(60):
                pixels = np.full((48, 64), 2 * frame, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "gray")))
            container.mux(stream.encode(None))
        moments = [round(1000 * (late_s + n / 15)) for n in range(24)]
        shown = [np.full((24, 32), moment, np.uint16) for moment in moments]
        images = [f"MDepth-{i:08}.png" for i in range(1, 25)]
        write_images(tmp_path / f"depth/a/{name}", images, shown.__getitem__)
        table.append(f"rgb/a/{name}.avi,depth/a/{name},a,{late_s}")
    (tmp_path / "samples.csv").write_text("\n".join(table))
    names = ("rgb", "depth")
    catalog = Catalog.from_csv(tmp_path / "samples.csv", tmp_path, parts=names)
    spec = {
        "rgb": ClipSpec(
            6, stride=2, resize=32, size=(24, 24), crop="random", flip=True, sampling="random",
            pixels="gray",
        ),
        "depth": ClipSpec(
            6, resize=16, size=(12, 12), pixels="gray16", scaling="nearest", images_fps=15
        ),
    }  # fmt: skip
    expected = []
    for batch, _, info in decode_serially(catalog, spec, **HOW, epochs=5, info=True):
        parts = cast(dict[str, Any], batch)
        assert (parts["depth"].dtype, parts["depth"].shape[1:]) == (np.uint16, (6, 12, 12, 1))
        rgb_s = parts["rgb"].mean((2, 3, 4)) / 2 / 30
        depth_s = parts["depth"].mean((2, 3, 4)) / 1000
        np.testing.assert_allclose(rgb_s, info.times, atol=0.01)
        assert np.abs(depth_s - rgb_s).max() <= 0.5 / 15 + 0.001
        expected.append((batch, _, info))
    stream = client.stream(catalog, spec, **HOW)
    assert digest(stream.batches(epochs=5, info=True)) == digest(expected)


# What is wrong with images


@pytest.mark.parametrize(
    ("number", "content", "why"),
    [
        (3, image(scene(3))[:100], "cannot be decoded"),
        (3, b"", "is empty"),
        (3, image(scene(3, (48, 66))), "is 66x48 pixels, and the first one 64x48"),
        (0, b"no picture", "cannot be decoded"),
        (3, b"\xff\xd8\xff\xe0" + bytes(99), "cannot be decoded as png: it is a JPEG picture"),
    ],
)
def test_a_bad_image_is_named(tmp_path: Path, number: int, content: bytes, why: str) -> None:
    folder = write_images(tmp_path / "a/s", [f"{i}.png" for i in range(8)])
    (folder / f"{number}.png").write_bytes(content)
    catalog = Catalog.from_folder(tmp_path)
    with pytest.raises(VideoError, match=f"a/s: its image '{number}.png' {why}"):
        list(decode_serially(catalog, ClipSpec(8, size=(48, 64)), 1, on_error="raise"))


def test_a_sequence_that_grows_or_changes_is_read_anew(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "s", [f"{i}.png" for i in range(4)])
    decoder = Decoder(tmp_path)
    first = decoder.fingerprint("s")
    assert decoder.index("s").info.frames == 4
    write_images(folder, [f"{i}.png" for i in range(6)])
    assert decoder.index("s").info.frames == 6
    assert decoder.fingerprint("s") != first


def test_a_recording_of_images_gives_each_frame(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "s", [f"d{i}.png" for i in range(9)], depth)
    with vl.open(folder, pixels="gray16") as video:
        assert (len(video), video.size, video.codec, video.is_proven) == (9, (48, 64), "png", True)
        for number in (5, 5, 0, 8, 7):  # in any order: PNGs are not added to each other
            np.testing.assert_array_equal(video[number][..., 0], depth(number))


def test_no_native_frame_is_kept_of_16_bits(root: Path, tmp_path: Path) -> None:
    catalog, spec = Catalog.from_folder(root / "depth"), spec_of("depth")
    expected = digest(decode_serially(catalog, spec, **HOW))
    assert digest(decode_serially(catalog, spec, **HOW, frame_store=tmp_path)) == expected
    catalog, spec = Catalog.from_folder(root / "jpeg"), spec_of("jpeg")
    expected = digest(decode_serially(catalog, spec, **HOW))
    for _ in range(2):
        assert digest(decode_serially(catalog, spec, **HOW, frame_store=tmp_path)) == expected


def test_a_scan_reports_images(root: Path, tmp_path: Path) -> None:
    folder = write_images(tmp_path / "s", [f"{i}.jpg" for i in range(4)])
    (folder / "2.jpg").write_bytes(b"no picture")
    index, report = Decoder(tmp_path).report("s")
    assert index.info.frames == 4
    assert (report.container, report.codec, report.frames, report.refused) == (
        "images", "mjpeg", 3, 1,
    )  # fmt: skip


def test_parts_have_the_size_of_their_files_if_no_size_is_given(root: Path, client: Client) -> None:
    parts: Any = {name: Catalog.from_folder(root / name, root=root) for name in ("jpeg", "depth")}
    catalog = Catalog.side_by_side(by="frames", **parts)
    native = {"jpeg": ClipSpec(4, resize=36), "depth": ClipSpec(4, pixels="gray16")}
    given = {
        "jpeg": ClipSpec(4, resize=36, size=(36, 48)),
        "depth": ClipSpec(4, size=(48, 64), pixels="gray16"),
    }
    expected = digest(decode_serially(catalog, given, 3, info=True))
    assert digest(decode_serially(catalog, native, 3, info=True)) == expected
    assert digest(client.stream(catalog, native, 3).batches(info=True)) == expected
    with pytest.raises(SpecError, match="have a size: give size= to 'depth'"):
        decode_serially(catalog, {**native, "jpeg": given["jpeg"]}, 3)
