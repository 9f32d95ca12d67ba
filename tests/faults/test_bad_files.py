"""Videos that cannot be decoded are named, counted, and replaced by the same others in every run,
or end the stream with an error. They never cause a hang or a silent hole."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import (
    Catalog,
    Client,
    ClipSpec,
    TooManyBadVideos,
    VideoError,
    VideoloadError,
    decode_serially,
)

pytestmark = pytest.mark.timeout(90 * SECOND)

CLIP = ClipSpec(
    frames=6, stride=2, resize=36, size=(32, 32), crop="random", flip=True, sampling="random",
    clips_per_video=3,
)  # fmt: skip
BATCH = 4
# path -> a part of the reason
BAD = {
    "jump/header.avi": "opened",
    "run/missing.avi": "No such file",
    "walk/text.avi": "opened",
}


@pytest.fixture(scope="module")
def spoiled(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Good videos, one that is truncated but can be decoded, and three that cannot be decoded."""
    root = tmp_path_factory.mktemp("spoiled")
    shutil.copytree(videos.root, root, dirs_exist_ok=True)
    long = (root / "jump/long.avi").read_bytes()
    (root / "jump/long.avi").write_bytes(long[: len(long) // 2])
    (root / "jump/header.avi").write_bytes(long[:1000])
    (root / "walk/text.avi").write_text("not a video\n" * 1000)
    paths = sorted([*videos.frames, *BAD])
    classes = ["jump", "run", "walk"]
    return Catalog(paths, [classes.index(path.split("/")[0]) for path in paths], classes, root)


def only_bad(root: Path, count: int) -> Catalog:
    for number in range(count):
        (root / f"{number}.avi").write_text("not a video")
    return Catalog([f"{n}.avi" for n in range(count)], [0] * count, ["any"], root)


def read_until_error(batches: Any) -> tuple[list[str], VideoloadError]:
    """The digests of the batches that came, and the error that ended the stream."""
    got: list[str] = []
    try:
        for batch in batches:
            got += digests([batch])
    except VideoloadError as error:
        return got, error.with_traceback(None)
    pytest.fail("no error came")


# Some


@pytest.mark.parametrize(
    "fleet", ["local", pytest.param("remote", marks=pytest.mark.slow), "local, unordered"]
)
def test_bad_videos_are_named_once_and_replaced_as_in_a_serial_run(
    fleet: str,
    spoiled: Catalog,
    client: Client,
    programs: Programs,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("videoload.leases.blame._COMING_S", 0.5 * SECOND)
    assert spoiled.root is not None
    expected = digests(decode_serially(spoiled, CLIP, BATCH, shuffle=True, epochs=2, info=True))
    caplog.clear()
    with ExitStack() as stack:
        if fleet == "remote":
            client = stack.enter_context(Client(workers=0, listen="tcp://127.0.0.1:*"))
            for _ in range(2):
                programs.worker(client.endpoints[0], spoiled.root)
        ordered = not fleet.endswith("unordered")
        stream = client.stream(spoiled, CLIP, BATCH, shuffle=True, ordered=ordered)
        batches = list(stream.batches(epochs=2, info=True))
        bad = stream.quarantine
        assert stream.stats().bad_videos == tuple(bad)
        # Another stream meets them again, with the same result.
        assert digests(
            client.stream(spoiled, CLIP, BATCH, shuffle=True).batches(epochs=1, info=True)
        ) == expected[: len(stream)]  # fmt: skip
    got = digests(batches)
    assert (got if ordered else Counter(got)) == (expected if ordered else Counter(expected))
    for clips, labels, info in batches:
        assert all(spoiled[int(video)].path not in BAD for video in info.video)
        assert labels.tolist() == [spoiled[int(video)].label for video in info.video]
        assert all(pixels.any() for pixels in clips)
    assert sorted(path for path, _ in bad) == sorted(BAD)
    for path, reason in bad:
        assert BAD[path] in reason
    named = Counter(m.split(": ")[0] for m in caplog.messages if m.startswith("bad video "))
    assert named == {f"bad video {path}": 2 for path in BAD}, "once a stream"


@pytest.mark.slow
def test_with_raise_the_first_bad_video_ends_the_stream_by_name(
    videos: Videos, tmp_path: Path, client: Client
) -> None:
    shutil.copytree(videos.root, tmp_path, dirs_exist_ok=True)
    (tmp_path / "walk/text.avi").write_text("not a video")
    catalog = Catalog.from_folder(tmp_path)
    options: dict[str, Any] = {"shuffle": True, "seed": 2, "on_error": "raise"}
    expected, error = read_until_error(decode_serially(catalog, CLIP, BATCH, epochs=9, **options))
    assert isinstance(error, VideoError)
    stream = client.stream(catalog, CLIP, BATCH, **options)
    for turn in range(2):  # it does not continue behind the user's back
        got, same = read_until_error(stream.batches(epochs=9))
        assert isinstance(same, VideoError)
        assert same.path == error.path == "walk/text.avi"
        assert same.reason == error.reason
        assert got == ([] if turn else expected)
    # Another stream of the same client is not affected.
    good = client.stream(videos.catalog, CLIP, BATCH)
    assert digests(good) == digests(decode_serially(videos.catalog, CLIP, BATCH))


def with_bad_ones(videos: Videos, root: Path, bad: int) -> Catalog:
    """The good videos five times, with bad ones among them."""
    for copy in range(5):
        shutil.copytree(videos.root, root / f"x{copy}")
    for number in range(bad):
        (root / f"x{number % 5}/walk/bad{number}.avi").write_text("not a video")
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.avi"))
    return Catalog(files, [0] * len(files), ["any"], root)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raise", "too many", "transform"])
def test_a_stream_stops_where_a_serial_run_stops_although_it_decodes_ahead(
    how: str, videos: Videos, tmp_path: Path, client: Client
) -> None:
    catalog = with_bad_ones(videos, tmp_path / "root", 1 if how == "raise" else 6)
    clip = CLIP
    options: dict[str, Any] = {"shuffle": True, "seed": 1}
    if how == "raise":
        options["on_error"] = "raise"
    elif how == "transform":
        options["max_bad"] = 1.0
        clip = replace(CLIP, transform="tests.support.transforms:fails_at_times")
    serial, error = read_until_error(decode_serially(catalog, clip, BATCH, **options))
    assert len(serial) > 3, "there is something to be cancelled"
    for _ in range(either(1, 5)):
        stream = client.stream(catalog, clip, BATCH, **options)
        got, same = read_until_error(stream)
        assert got == serial
        assert (type(same), str(same)) == (type(error), str(error))
    # After a resume it counts from zero; with "raise", and if one transform fails, nothing
    # changes.
    resumed, end = read_until_error(
        decode_serially(catalog, clip, BATCH, start_step=3, epochs=9, **options)
    )
    got, same = read_until_error(
        client.stream(catalog, clip, BATCH, **options).batches(start_step=3, epochs=9)
    )
    assert got == resumed
    assert (type(same), str(same)) == (type(end), str(end))
    if how != "too many":
        assert resumed == serial[3:]


# Left out


@pytest.mark.parametrize("drop_remainder", [True, False])
def test_skipped_clips_make_their_batch_smaller_as_in_a_serial_run(
    drop_remainder: bool, spoiled: Catalog, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"on_error": "skip", "drop_remainder": drop_remainder}
    clip = replace(CLIP, clips_per_video=2)
    serial = list(decode_serially(spoiled, clip, BATCH, epochs=2, info=True, **options))
    stream = client.stream(spoiled, clip, BATCH, **options)
    caplog.clear()
    batches = list(stream.batches(epochs=2, info=True))
    assert digests(batches) == digests(serial)
    assert [info.step for *_, info in batches] == [info.step for *_, info in serial]
    seen = Counter(int(video) for *_, info in batches for video in info.video)
    bad = [i for i, video in enumerate(spoiled) if video.path in BAD]
    if not drop_remainder:  # each clip of each good video, and nothing in the place of a bad one
        assert seen == {i: 4 for i in range(len(spoiled)) if i not in bad}
        assert sorted(video.path for video in stream.quarantine) == sorted(BAD)
    assert all(seen[i] == 0 for i in bad)
    named = [message for message in caplog.messages if "its clips are left out" in message]
    assert len(named) == len(stream.quarantine)
    for clips, labels, info in batches:
        assert len(clips) == len(labels) == len(info.video) == len(info.frames) > 0
        assert labels.tolist() == [spoiled[int(video)].label for video in info.video]


# Too many


def test_too_many_bad_videos_end_the_stream_with_the_list(
    videos: Videos, tmp_path: Path, client: Client
) -> None:
    shutil.copytree(videos.root, tmp_path, dirs_exist_ok=True)
    bad = [f"walk/bad{number}.avi" for number in range(4)]
    for path in bad:
        (tmp_path / path).write_text("not a video")
    catalog = Catalog.from_folder(tmp_path)
    serial, error = read_until_error(decode_serially(catalog, CLIP, BATCH, shuffle=True, epochs=9))
    assert isinstance(error, TooManyBadVideos)
    assert sorted(video.path for video in error.videos) == bad
    assert error.limit == 3
    assert all(word in str(error) for word in ("4 of 12", "max_bad", "3"))
    for path in bad:
        assert path in str(error)
    stream = client.stream(catalog, CLIP, BATCH, shuffle=True)
    got, same = read_until_error(stream.batches(epochs=9))
    assert got == serial
    assert (type(same), str(same)) == (type(error), str(error))
    assert tuple(stream.quarantine) == stream.stats().bad_videos
    again, third = read_until_error(stream.batches(epochs=9))
    assert not again
    assert str(third) == str(error)
    assert third is not same, "an error that was raised holds on to its consumer's frames"
    # The user knows better.
    tolerant = client.stream(catalog, CLIP, BATCH, shuffle=True, max_bad=0.5)
    assert digests(tolerant) == digests(
        decode_serially(catalog, CLIP, BATCH, shuffle=True, max_bad=0.5)
    )


def test_a_catalog_without_one_good_video_is_an_error(tmp_path: Path, client: Client) -> None:
    options: dict[str, Any] = {"shuffle": True, "max_bad": 1.0, "drop_remainder": False}
    for count in (1, 3, 40):
        catalog = only_bad(tmp_path, count)
        for batches in (
            decode_serially(catalog, CLIP, BATCH, **options),
            client.stream(catalog, CLIP, BATCH, **options),
        ):
            got, error = read_until_error(batches)
            assert not got
            assert isinstance(error, TooManyBadVideos)
            assert len(error.videos) == count


# Short ones
