"""Videos that cannot be decoded are named, counted, and replaced by the same others in every run,
or end the stream with an error. They never cause a hang or a silent hole."""

import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import av
import pytest

from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, TooManyBadVideos, VideoloadError, decode_serially

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


def read_until_error(batches: Any) -> tuple[list[str], VideoloadError]:
    """The digests of the batches that came, and the error that ended the stream."""
    got: list[str] = []
    try:
        for batch in batches:
            got += digests([batch])
    except VideoloadError as error:
        return got, error.with_traceback(None)
    pytest.fail("no error came")


@pytest.mark.parametrize("fleet", ["local", pytest.param("remote", marks=pytest.mark.slow)])
def test_bad_videos_are_named_once_and_replaced_as_in_a_serial_run(
    fleet: str,
    spoiled: Catalog,
    client: Client,
    programs: Programs,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("videoload.scheduler.blame.COMING_S", 0.5 * SECOND)
    assert spoiled.root is not None
    expected = digests(decode_serially(spoiled, CLIP, BATCH, shuffle=True, epochs=2, info=True))
    caplog.clear()
    with ExitStack() as stack:
        if fleet == "remote":
            client = stack.enter_context(Client(workers=0, listen="tcp://127.0.0.1:*"))
            for _ in range(2):
                programs.worker(client.endpoints[0], spoiled.root)
        for _ in range(2):  # another stream meets them again
            stream = client.stream(spoiled, CLIP, BATCH, shuffle=True)
            assert digests(stream.batches(epochs=2, info=True)) == expected
        assert stream.stats().bad_videos == tuple(stream.quarantine)
    assert sorted(path for path, _ in stream.quarantine) == sorted(BAD)
    assert all(BAD[path] in reason for path, reason in stream.quarantine)
    named = Counter(m.split(": ")[0] for m in caplog.messages if m.startswith("bad video "))
    assert named == {f"bad video {path}": 2 for path in BAD}, "once a stream"


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
    if isinstance(error, TooManyBadVideos):
        assert all(word in str(error) for word in ("max_bad", *(bad.path for bad in error.videos)))
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


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Six good files, and two whose beginning alone can be decoded."""
    folder = tmp_path_factory.mktemp("torn")
    for seed in range(6):
        make_avi(folder / f"all/good{seed}.avi", frames=30, seed=seed)
    for seed in range(2):
        made = make_avi(folder / f"all/torn{seed}.avi", frames=130, codec="utvideo", seed=9 + seed)
        with av.open(str(made)) as container:
            packets = [packet for packet in container.demux() if packet.size]
            places = [(packet.pos or 0, packet.size) for packet in packets]
        data = bytearray(made.read_bytes())
        for at, size in places[20:]:
            data[at + 8 : at + 8 + size] = bytes(size)  # after the chunk's own header
        made.write_bytes(data)
    return Catalog.from_folder(folder)


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_the_sound_rest_of_a_video_with_one_damaged_place_is_used_by_every_way(
    on_error: Literal["substitute", "skip"], torn: Catalog, client: Client
) -> None:
    clip = ClipSpec(4, size=(32, 32), resize=48, sampling="uniform", clips_per_video=10)
    how: dict[str, Any] = {"shuffle": True, "max_bad": 1.0, "on_error": on_error}
    serial = digests(decode_serially(torn, clip, 2, epochs=2, info=True, **how))
    stream = client.stream(torn, clip, 2, **how)
    assert digests(stream.batches(epochs=2, info=True)) == serial
    bad = {video.path for video in stream.quarantine}
    assert bad == {f"all/torn{number}.avi" for number in range(2)}
