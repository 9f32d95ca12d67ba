"""Of a file below a URL no more is requested than clips need, once, and ahead of their turn."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.long_file import make_long
from tests.support.object_server import ObjectServer
from tests.support.remote_files import LONG, OTHER, SPEC, clip_of
from tests.support.servers import asked
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec, one_clip
from videoload.decoding.decoder import Decoder
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.paths import SEPARATOR

pytest.importorskip("obstore", reason="needs videoload[remote]")


def test_prefetched_files_are_requested_once_before_they_are_needed(server: ObjectServer) -> None:
    decoder, paths = Decoder(server.url), [LONG, OTHER, "run/wide.avi"]
    for path in [*paths, *paths, "../outside"]:  # `decode` raises what is wrong
        decoder.prefetch(path, one_clip(SPEC), [Clip(0)])
    wait_until(lambda: {path for path, _ in asked(server)} == {*paths}, 30 * SECOND)
    for path in reversed(paths):
        assert not isinstance(clip_of(decoder, path), str)
    assert sorted(path for path, _ in asked(server)) == sorted(paths)


def test_all_parts_of_a_prefetched_sample_are_requested_at_once(tmp_path: Path) -> None:
    """First their beginnings, and once their indexes are known the pictures that they show."""
    names = {"rgb": "rgb.avi", "ir": "ir.avi", "depth": "depth.avi"}
    whole = make_avi(tmp_path / "rgb.avi", frames=400, size=(144, 192))
    for name in ("ir.avi", "depth.avi"):
        shutil.copy(whole, tmp_path / name)
    spec = SampleSpec({name: replace(SPEC, short="loop") for name in names})
    path = SEPARATOR.join(names.values())
    here, out, wanted = Decoder(tmp_path), *np.zeros((2, 1, spec.clip_bytes), np.uint8)
    with ObjectServer(tmp_path) as server:
        there = Decoder(server.url)
        for seed in range(3):
            server.requests.clear()
            there.prefetch(path, spec, [Clip(seed)])
            if not seed:
                wait_until(lambda: len(asked(server)) == 3, 30 * SECOND)
            there.decode(path, spec, [Clip(seed)], out)
            here.decode(path, spec, [Clip(seed)], wanted)
            assert np.array_equal(out, wanted)


@pytest.mark.parametrize(
    ("codec", "container"),
    [("mpeg4", "avi"), ("libx264", "avi"), ("libx264", "mp4"), ("mpeg4", "matroska")],
)
def test_once_the_index_is_known_only_the_pictures_of_the_clip_are_requested(
    codec: str, container: str, tmp_path: Path, in_parts: None
) -> None:
    """And what FFmpeg needs to open the file, if it does; also by another process of this host."""
    path = make_avi(
        tmp_path / "a.avi", frames=400, codec=codec, size=(144, 192), container_format=container
    )
    here, size = Decoder(tmp_path), path.stat().st_size
    folders = CacheDirectories(str(tmp_path / "cache"))
    with ObjectServer(tmp_path) as server:
        assert clip_of(Decoder(server.url, folders=folders), "a.avi") == clip_of(here, "a.avi")
        assert server.bytes_sent < 1.2 * size
        for seed in range(3):
            server.requests.clear()
            there = Decoder(server.url, folders=folders)
            there.videos.index("a.avi")  # is asked for one byte: is it still the same file?
            assert [sent for _, sent in asked(server)] == [1]
            there.prefetch("a.avi", one_clip(SPEC), [Clip(seed)])
            assert clip_of(there, "a.avi", seed) == clip_of(here, "a.avi", seed)
            assert 1 < server.bytes_sent < 0.5 * size
            assert len(asked(server)) <= 5


@pytest.mark.slow
def test_a_long_file_is_read_through_once_and_then_only_what_clips_need(tmp_path: Path) -> None:
    path = "long.avi"
    make_long(tmp_path / path, 7200)
    size = (tmp_path / path).stat().st_size
    with ObjectServer(tmp_path) as server:
        here, there = Decoder(tmp_path), Decoder(server.url)
        assert clip_of(here, path, 0) == clip_of(there, path, 0)
        assert server.bytes_sent < 1.1 * size
        first = server.bytes_sent
        assert clip_of(here, path, 1) == clip_of(there, path, 1)
        assert server.bytes_sent - first < 0.03 * size
