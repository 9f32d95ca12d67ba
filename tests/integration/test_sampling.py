"""Kinds of clips, from end to end: dense windows, native sizes, several clips of a visit, and
transforms that run in the workers."""

import math
import signal
import threading
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.numbered import make_numbered, read_numbers
from tests.support import transforms
from tests.support.digests import digest
from tests.support.programs import Programs
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import (
    Catalog,
    Client,
    ClipSpec,
    ClosedError,
    PerFrame,
    Points,
    TooManyBadVideos,
    TransformError,
    VideoError,
    decode_serially,
)
from videoload.clips.clip_spec import at_native_size

pytestmark = pytest.mark.xdist_group("sampling")

TRANSFORMED: dict[str, Any] = {"frames": 4, "stride": 2, "size": (32, 32), "sampling": "random"}


# Windows


@pytest.mark.parametrize("path", ["jump/long.avi", "walk/b_frames.avi", "run/mjpeg.avi"])
def test_windows_at_key_frames_begin_there(videos: Videos, path: str) -> None:
    clip = ClipSpec(3, size=(16, 16), sampling="random", align="keyframe")
    catalog = Catalog([path] * 40, root=videos.root, duplicates=True)
    batches = decode_serially(catalog, clip, 1, info=True)
    found = {info.frames[0].item(0) for *_, info in batches}
    last = videos.frames[path] - 3
    every = range(last + 1) if path == "run/mjpeg.avi" else range(0, last + 1, 12)
    assert found <= {*every}
    assert len(found) >= min(len(every), 10)


def test_windows_by_time_need_no_scan_and_no_equal_rates(
    tmp_path: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    rates = {"a": Fraction(25), "b": Fraction(15), "c": Fraction(30000, 1001)}
    for name, rate in rates.items():
        make_avi(tmp_path / f"x/{name}.avi", frames=math.floor(4 * rate), rate=rate)
    (tmp_path / "x/bad.avi").write_bytes(b"RIFF, but not more")
    uneven = np.cumsum([0.0, *[0.04, 0.1, 0.3] * 7])
    make_avi(tmp_path / "x/uneven.mkv", times=uneven.tolist(), container_format="matroska")
    spec = ClipSpec(frames=4, fps=4, hop_s=0.5, size=(32, 32), sampling="dense")
    catalog = Catalog.from_folder(tmp_path)
    how: dict[str, Any] = {"drop_remainder": False, "on_error": "skip", "max_bad": 1.0}
    found: dict[str, list[float]] = {}
    for *_, info in decode_serially(catalog, spec, 1, info=True, **how):
        path, fps = Path(info.path[0]).stem, rates.get(Path(info.path[0]).stem)
        begin = len(found.setdefault(path, [])) * 0.5
        wanted = begin + np.arange(4) / 4
        if fps is not None:
            assert info.frames[0].tolist() == [math.floor((t + 1.001e-3) * fps) for t in wanted]
        else:
            shown = np.searchsorted(uneven, wanted + 1.001e-3, "right") - 1
            assert info.frames[0].tolist() == shown.tolist()
            assert np.abs(info.times[0] - uneven[shown]).max() < 2e-3
        found[path].append(begin)
    assert {path: len(begins) for path, begins in found.items()} == {
        "a": 7, "b": 7, "c": 7, "uneven": 5,
    }  # fmt: skip
    assert "last frames" in caplog.text
    stream = client.stream(catalog, spec, 1, **how)
    assert len(stream) == 7 + 7 + 7 + 5 + 1, "a bad video counts as one, so that it is named"


@pytest.mark.parametrize("edges", ["hold", "zero"])
def test_each_labelled_frame_is_in_the_middle_of_a_window_with_its_labels(
    tmp_path: Path, edges: Any
) -> None:
    root = tmp_path / "videos"
    lengths = {"a.avi": 23, "b.avi": 9, "c.avi": 4}
    for name, frames in lengths.items():
        make_numbered(root / name, frames, codec="mpeg4")
    paths = [name for name, frames in lengths.items() for _ in range(frames)]
    at = [i for frames in lengths.values() for i in range(frames)]
    labels = {name: np.arange(1, n + 1) for name, n in lengths.items()}
    catalog = Catalog(paths, root=root, at=at)
    dots = {
        name: np.stack([np.arange(n), np.arange(n) / 2], 1)[:, None] for name, n in lengths.items()
    }
    label, dot = PerFrame([labels[name] for name in paths]), Points([dots[name] for name in paths])
    catalog = catalog.with_targets({"label": label, "dot": dot})
    spec = ClipSpec(offsets=(-4, -2, -1, 0, 1, 3), sampling="at", edges=edges, size=(64, 64))
    seen = 0
    for clips, rows, info in decode_serially(catalog, spec, 5, info=True):
        for clip, row, dot, told, video in zip(
            clips, rows["label"], rows["dot"], info.frames, info.video, strict=True
        ):
            last = lengths[paths[video]] - 1
            wanted = at[video] + np.array(spec.offsets)
            beyond = (wanted < 0) | (wanted > last)
            assert told.tolist() == np.where(beyond, -1, wanted).tolist()
            shown = np.clip(wanted, 0, last)
            there = ~beyond if edges == "zero" else np.ones(6, bool)
            assert read_numbers(clip[there][None])[0].tolist() == shown[there].tolist()
            assert not clip[~there].any()
            assert row.tolist() == np.where(there, shown + 1, 0).tolist()
            wanted_dot = np.where(there, shown, np.nan)[:, None, None] * [1, 0.5]
            np.testing.assert_array_equal(dot, wanted_dot)
            seen += 1
        assert (np.isnan(info.times) == (info.frames < 0)).all()
    assert seen == len(catalog)


# Native size


def test_windows_around_each_frame_are_counted_where_no_table_says_how_many(
    tmp_path: Path,
) -> None:
    make_avi(tmp_path / "a.avi", frames=9)
    catalog = Catalog(["a.avi"], root=tmp_path)
    spec = ClipSpec(offsets=(-1, 0, 2), sampling="dense", hop=2, edges="hold", size=32)
    ((_, _, info),) = decode_serially(catalog, spec, 5, info=True)
    assert info.frames[:, 1].tolist() == [0, 2, 4, 6, 8]


def test_without_a_size_clips_have_the_size_of_the_first_good_file_wherever_it_lies(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "a.avi").write_text("not a video")
    for name, height in (("b", 70), ("c", 70), ("d", 80)):
        make_avi(tmp_path / f"{name}.avi", frames=12, size=(height, 90))
    catalog = Catalog(["a.avi", "b.avi", "c.avi", "d.avi"])
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        programs.worker(client.endpoints[0], tmp_path)
        assert client.stream(catalog, ClipSpec(4), 1).clip.shape == (4, 70, 90, 3)
        with pytest.raises(TooManyBadVideos, match=r"a\.avi"):
            client.stream(catalog[:1], ClipSpec(4), 1)
    here = Catalog(catalog.paths, root=tmp_path)
    for resize, size in ((None, (70, 90)), (56, (56, 72))):
        clips, _ = next(decode_serially(here[1:3], ClipSpec(4, resize=resize), 2))
        assert clips.shape == (2, 4, *size, 3)
    with Client(workers=1) as client:
        stream = client.stream(here[1:3], ClipSpec(4), 2)
        assert stream.clip == at_native_size(ClipSpec(4, sampling="center"), 90, 70)
        assert digest(stream) == digest(decode_serially(here[1:3], ClipSpec(4), 2))
    with pytest.raises(VideoError, match=r"d\.avi: .*90x80"):
        list(decode_serially(here[1:], ClipSpec(4), 2, on_error="raise"))
    with pytest.raises(TooManyBadVideos, match=r"a\.avi"):
        decode_serially(here[:1], ClipSpec(4), 1)


# Transforms


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", r"\.avi: RuntimeError\('no luck'\)"),
        ("exits", r"\.avi: SystemExit\('enough'\)"),
        ("wrong_shape", r"uint8\[1, 32, 32, 3\].* uint8\[4, 32, 32, 3\]"),
        ("wrong_type", r"float64\["),
        ("not_there", "not_there"),
        ("not_a_function", "not_a_function"),
    ],
)
def test_a_transform_that_fails_stops_the_stream_and_blames_no_video(
    videos: Videos, name: str, words: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    spec = ClipSpec(**TRANSFORMED, transform=f"tests.support.transforms:{name}")
    with pytest.raises(TransformError, match=words) as serial:
        next(decode_serially(videos.catalog, spec, 4))
    stream = client.stream(videos.catalog, spec, 4)
    with pytest.raises(TransformError) as raised:
        next(iter(stream))
    assert str(raised.value) == str(serial.value)
    workers = tuple(f"worker {worker.name}: " for worker in client.workers)
    wait_until(  # of several at once, it has the last one
        lambda: any(text.startswith(workers) and name in text for text in caplog.messages),
        30 * SECOND, "the log tells whose it was",
    )  # fmt: skip
    assert stream.quarantine == []


def test_a_worker_calls_no_function_that_its_owner_did_not_allow(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.scheduler.blame.COMING_S", 0.1)  # no other worker will come
    module = transforms.__name__
    clip = ClipSpec(**TRANSFORMED, transform=transforms.invert)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        words = (client.endpoints[0], videos.root)
        refusing = programs.worker(*words)
        client.wait_for_workers(1, 60 * SECOND)
        with pytest.raises(TransformError, match=f"--allow {module}"):
            list(client.stream(videos.catalog[:1], clip, 1))  # few mistakes: it gets no pause
        refusing.signal(signal.SIGTERM)
        wait_until(lambda: not client.workers, 30 * SECOND)
        programs.worker(*words, "--allow", module)
        client.wait_for_workers(1, 60 * SECOND)
        expected = digest(decode_serially(videos.catalog, clip, 4))
        assert digest(client.stream(videos.catalog, clip, 4)) == expected


def test_a_worker_ends_even_while_a_function_runs(videos: Videos, programs: Programs) -> None:
    clip = ClipSpec(**TRANSFORMED, transform=transforms.never_returns)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        flags = ("--workers", "1", "--allow", transforms.__name__)
        words = (client.endpoints[0], videos.root, *flags)
        ended = [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
        workers = [(programs.worker(*words), *how) for how in ended]
        stream = client.stream(videos.catalog, clip, 1)

        def read() -> None:
            with suppress(ClosedError):
                next(iter(stream))

        reader = threading.Thread(target=read)
        reader.start()
        for worker, number, status in workers:
            worker.wait_for("it has begun", 40 * SECOND)
            began = time.monotonic()
            worker.signal(number)
            assert worker.wait(30 * SECOND) == status
            assert time.monotonic() - began < either(30, 2) * SECOND
    reader.join(30 * SECOND)


@pytest.mark.parametrize("workers", rest_nightly([2, 1]))
def test_a_script_is_named_as_such_instead_of_imported_as_a_module(
    workers: int, videos: Videos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_script.py").write_text("import sys\nsys.exit(2)\ndef invert(clip, rng): ...\n")
    (tmp_path / "with_words.py").write_text(
        "from argparse import ArgumentParser\nArgumentParser().parse_args()\n"
        "def invert(clip, rng): return 255 - clip\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Client(workers=workers) as client:
        spec = ClipSpec(**TRANSFORMED, transform="a_script:invert")
        with pytest.raises(TransformError, match=r"SystemExit\(2\)"):
            next(iter(client.stream(videos.catalog, spec, 4)))
        # It does not find the worker's own arguments.
        spec = ClipSpec(**TRANSFORMED, transform="with_words:invert")
        list(client.stream(videos.catalog, spec, 4))
