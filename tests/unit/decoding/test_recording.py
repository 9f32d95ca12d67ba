"""A recording gives the frames of clips, in whatever way it is asked."""

import copy
import os
import pickle
import random
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import videoload as vl
from tests.support.codecs import KINDS, make
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos, make_avi
from videoload.decoding.recording import Recording

Frames = npt.NDArray[np.uint8]
# Decoders that begin anew at each key frame, files that prove nothing, files that FFmpeg reads.
SOME_KINDS = (
    "ffv1_inter", "mpeg4_interlaced_bframes", "h264_intra_refresh", "mp4_h264_cut_by_edit_list",
    "msmpeg4v2", "mpeg4_packed_runs", "h264_slice_a_packet", "mkv_vp9_named_avi",
)  # fmt: skip
LIKE: list[dict[str, Any]] = [{}, {"pixels": "gray"}, {"pixels": "yuv420p", "resize": 40}]


def whole(path: Path, frames: int, **how: Any) -> Frames:
    """All frames of a file, as the one clip of a stream."""
    catalog = vl.Catalog([path.name], [0], ["all"], path.parent)
    [(clips, _)] = vl.decode_serially(catalog, vl.ClipSpec(frames=frames, **how), 1)
    clip: Frames = clips[0]
    return clip


def drawn(frames: int, seed: int = 0, count: int = 12) -> list[int]:
    """Ordinals in any order, some of them twice."""
    return random.Random(seed).choices(range(frames), k=count)


def check(path: Path, frames: Frames, **how: Any) -> None:
    """However a recording is asked, it gives these frames."""
    ways: list[Callable[[Recording], object]] = [
        list,
        lambda video: [video[i] for i in range(len(video))],
        lambda video: [video[i] for i in reversed(range(len(video)))][::-1],
    ]
    with vl.open(path, cache=False, **how) as video:
        assert len(video) == len(frames)
        for seed in range(2):
            order = drawn(len(frames), seed)
            np.testing.assert_array_equal(video.frames(order), frames[order])
            np.testing.assert_array_equal([video[i] for i in order], frames[order])
        for way in ways:
            np.testing.assert_array_equal(way(video), frames)


@pytest.mark.parametrize("how", LIKE, ids=str)
def test_its_frames_are_those_of_a_clip_in_any_order(how: dict[str, Any], videos: Videos) -> None:
    for name in ("jump/long.avi", "run/mjpeg.avi", "walk/b_frames.avi"):
        check(videos.root / name, whole(videos.root / name, videos.frames[name], **how), **how)


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_nightly(SOME_KINDS, usual=4))
def test_its_frames_are_those_of_a_clip_whatever_the_codec(name: str, tmp_path: Path) -> None:
    [kind] = [kind for kind in KINDS if kind.name == name]
    path = make(kind, tmp_path)
    with vl.open(path, cache=False) as video:
        frames = len(video)
    check(path, whole(path, frames))


def test_it_is_indexed_like_a_sequence(videos: Videos) -> None:
    with vl.open(videos.root / "walk/gop12.avi") as video:
        frames = video[:]
        assert frames.shape == (40, *video.size, 3)
        np.testing.assert_array_equal(video[-1], frames[39])
        np.testing.assert_array_equal(video[np.int64(3)], frames[3])
        np.testing.assert_array_equal(video[30:2:-7], frames[30:2:-7])
        np.testing.assert_array_equal(video.frames([-1, 0]), frames[[39, 0]])
        assert video[5:5].shape == video.frames([]).shape == (0, *video.size, 3)
        with pytest.raises(IndexError, match="40"):
            _ = video[40]
        with pytest.raises(TypeError):
            video.frames([1.5])  # type: ignore[list-item]
        assert all(word in repr(video) for word in ("40", "96x72", "25"))


def test_it_tells_times_and_gives_the_frame_that_is_shown_at_one(videos: Videos) -> None:
    with vl.open(videos.root / "run/wide.avi") as video:
        assert video.fps == pytest.approx(30000 / 1001)
        np.testing.assert_allclose(video.times, np.arange(26) * 1001 / 30000)
        assert video.codec == "mpeg4"
        assert video.is_proven
        for seconds, shown in ((0, 0), (video.times[7], 7), (0.25, 7), (1e6, 25)):
            np.testing.assert_array_equal(video.at(seconds), video[shown])
        with pytest.raises(IndexError, match=r"0 s.* -1"):
            video.at(-1)


def test_times_go_on_where_another_recording_follows(tmp_path: Path) -> None:
    jump = [n / 25 + 3600 * (n >= 20) for n in range(40)]
    path = make_avi(
        tmp_path / "a.ts", times=jump, codec="libx264", container_format="mpegts"
    )  # fmt: skip
    with vl.open(path, cache=False) as video:
        np.testing.assert_allclose(video.times, np.arange(40) / 25, atol=0.001)


def test_a_copy_opens_the_file_again(
    videos: Videos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(videos.root)
    video = vl.open("jump/long.avi", resize=40)
    last = video[-1]
    monkeypatch.chdir(tmp_path)  # a relative path is that of the place where it was opened
    for other in (copy.deepcopy(video), pickle.loads(pickle.dumps(video))):
        np.testing.assert_array_equal(other[-1], last)
        other.close()
    np.testing.assert_array_equal(video[-1], last)
    video.close()
    with pytest.raises(vl.ClosedError, match=r"long\.avi"):
        _ = video[0]


def test_threads_may_share_one_or_have_one_each(videos: Videos) -> None:
    path = videos.root / "walk/b_frames.avi"
    frames = whole(path, 40)
    shared = vl.open(path, cache=False)
    wrong: list[object] = []

    def read(seed: int) -> None:
        own = vl.open(path, cache=False)
        for video in (shared, own) * 5:
            order = drawn(40, seed)
            if not np.array_equal(video.frames(order), frames[order]):
                wrong.append(order)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_process_reads_for_itself(tmp_path: Path) -> None:
    path = make_avi(
        tmp_path / "a.mov", frames=40, container_format="mov"
    )  # FFmpeg reads at the position of a descriptor, which both processes share
    video = vl.open(path, cache=False)
    frames = video[:]
    _ = video[20]
    child = os.fork()
    if not child:
        right = all(np.array_equal(video[i], frames[i]) for i in (21, 3, 22, 39) * 3)
        os._exit(0 if right else 3)
    for i in (21, 5, 30, 22) * 3:
        np.testing.assert_array_equal(video[i], frames[i])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    video.close()


def test_what_is_wrong_is_said_with_the_path(videos: Videos, tmp_path: Path) -> None:
    text = tmp_path / "text.avi"
    text.write_text("no video" * 100)
    make_avi(tmp_path / "inside.avi", frames=4)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "inside.avi", "inside.avi")
    assert len(vl.open(tmp_path / "x.tar/inside.avi")) == 4
    for path, reason in (
        (tmp_path / "nowhere.avi", "No such file"), (tmp_path, ""), (text, ""),
        (tmp_path / "x.tar", "member"),
    ):  # fmt: skip
        with pytest.raises(vl.VideoError) as caught:
            vl.open(path)
        assert caught.value.path == str(path)
        assert reason in caught.value.reason
    for at, how, argument in (
        (videos.root / "jump/long.avi", {"resize": 41}, "resize"),
        (videos.root / "jump/long.avi", {"pixels": "rgb"}, "pixels"),
        ("https://me:secret@host/a.avi", {}, "user"),
    ):
        with pytest.raises(vl.SpecError, match=argument):
            vl.open(at, **how)


def test_a_file_that_changes_while_it_is_open_is_no_wrong_frame(tmp_path: Path) -> None:
    path = make_avi(tmp_path / "a.avi", frames=60, seed=1)
    video = vl.open(path, cache=False)
    assert video[3].any()
    make_avi(tmp_path / "b.avi", frames=60, seed=2)
    (tmp_path / "b.avi").rename(path)
    with pytest.raises(vl.VideoError, match=r"a\.avi"):
        _ = video[3]
    with vl.open(path, cache=False) as other:
        assert other[3].any()
    video.close()


def test_a_file_may_be_a_piece_twice(videos: Videos) -> None:
    path = videos.root / "walk/gop12.avi"
    with vl.open(path) as one, vl.open([path, path]) as twice:
        assert len(twice) == 2 * len(one)
        np.testing.assert_array_equal(twice.frames([45, 3]), one.frames([5, 3]))
