"""Files below a URL give what the same files in a folder give, also once they have changed."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.object_server import ObjectServer
from tests.support.remote_files import (
    DAMAGED,
    LONG,
    ONE_FRAME_A_PACKET,
    OTHER,
    SPEC,
    assert_same_files,
    clip_of,
)
from tests.support.servers import bucket
from tests.support.videos import Videos, make_avi
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec, one_clip
from videoload.decoding.decoder import Decoder
from videoload.errors import VideoError
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.paths import PIECE_SEPARATOR, SEPARATOR
from videoload.storage.roots import open_storage

pytest.importorskip("obstore", reason="needs videoload[remote]")


@pytest.mark.parametrize("weak", [False, True])
def test_a_web_server_gives_what_the_folder_gives(
    weak: bool, folder: Path, server: ObjectServer, request: pytest.FixtureRequest
) -> None:
    server.weak = weak
    if weak:
        request.getfixturevalue("in_parts")
    here = Decoder(folder)
    good = assert_same_files(here, Decoder(server.url), folder)
    assert {ONE_FRAME_A_PACKET, DAMAGED, "walk/b_frames.avi"} <= set(good)
    assert any(not here.videos.index(path).order.is_proven for path in good)


@pytest.mark.slow
def test_a_bucket_gives_what_the_folder_gives(
    folder: Path, monkeypatch: pytest.MonkeyPatch, videos: Videos
) -> None:
    with bucket(folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        there = Decoder("s3://clips/data")
        assert assert_same_files(Decoder(folder), there, folder)
        with pytest.raises(VideoError, match=r"gone\.avi"):
            there.videos.index("gone.avi")
        catalog = Catalog.from_folder("s3://clips/data")
        good = [video.path for video in catalog if not video.path.startswith("bad/")]
        assert good == [video.path for video in videos.catalog]
        assert [*catalog.classes] == sorted([*videos.catalog.classes, "bad"])
        train, held_back = Catalog.train_and_test("s3://clips/data")
        assert (train.root, len(train) + len(held_back)) == (catalog.root, len(catalog))


def test_a_path_leads_only_below_the_root(server: ObjectServer) -> None:
    storage = open_storage(f"{server.url}/jump")
    assert storage.resolve("./long.avi").size > 0
    for path in ("../run/mjpeg.avi", "/etc/passwd", "..", "a/../../run/mjpeg.avi", "a\nb", "\udc80",
                 f"{server.url}/run/mjpeg.avi", "s3://other/a.avi", "%2e%2e/run/mjpeg.avi",
                 "long.avi?x", "long.avi#x"):  # fmt: skip
        with pytest.raises(VideoError):
            storage.resolve(path)
    assert {path.partition("/")[0] for path, _ in server.requests} == {"jump"}


# Files that change


@pytest.mark.parametrize("is_prefetched", [True, False])
def test_a_changed_file_is_read_as_it_is_now(
    is_prefetched: bool, folder: Path, server: ObjectServer, in_parts: None,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    decoder = Decoder(server.url)
    if is_prefetched:
        decoder.prefetch(LONG, one_clip(SPEC), [Clip(0)])
        with pytest.raises(VideoError):
            decoder.videos.index("gone.avi")  # by then, the first part is here
    else:
        assert not isinstance(clip_of(decoder, LONG), str)
        decoder.begin()  # bytes in memory are those of the old version
    shutil.copy(folder / OTHER, folder / LONG)
    assert clip_of(decoder, LONG, 3) == clip_of(Decoder(folder), LONG, 3)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("separator", [SEPARATOR, PIECE_SEPARATOR])
def test_all_files_of_a_row_may_be_replaced(separator: str, tmp_path: Path, in_parts: None) -> None:
    """The cached index of each is used until its server says that the file is another one, so each
    in turn is a reason to begin again."""
    names = [f"{number}.avi" for number in range(4)]
    for seed, name in enumerate([*names, *(f"other/{name}" for name in names)]):
        make_avi(tmp_path / name, frames=100, seed=seed, size=(144, 192))
    clip = replace(SPEC, stride=1 if separator == SEPARATOR else 80)
    spec = one_clip(clip)
    if separator == SEPARATOR:
        spec = SampleSpec(dict.fromkeys(names, clip))
    out, expected = np.zeros((2, 1, spec.clip_bytes), np.uint8)
    path = separator.join(names)
    with ObjectServer(tmp_path) as server:
        folders = CacheDirectories(str(tmp_path / "cache"))
        Decoder(server.url, folders=folders).decode(path, spec, [Clip(1)], out)  # fills the cache
        for name in names:
            shutil.copy(tmp_path / "other" / name, tmp_path / name)
        Decoder(tmp_path).decode(path, spec, [Clip(1)], expected)
        Decoder(server.url, folders=folders).decode(path, spec, [Clip(1)], out)
    assert np.array_equal(out, expected)
