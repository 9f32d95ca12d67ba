"""Good and bad files below a URL, and how a worker reads them."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.object_server import ObjectServer
from tests.support.servers import asked
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder
from videoload.errors import VideoError
from videoload.storage.cache_directories import CacheDirectories, CacheDirectory
from videoload.storage.files import Storage, retry_if_replaced
from videoload.storage.roots import open_storage

SPEC = ClipSpec(frames=6, stride=2, resize=40, size=(32, 32), sampling="random", short="hold")
LONG, OTHER = "jump/long.avi", "walk/gop12.avi"
ONE_FRAME_A_PACKET, DAMAGED = "bad/palette.avi", "bad/damaged.avi"


def make_files(folder: Path, videos: Videos) -> None:
    """The good videos, and bad ones."""
    shutil.copytree(videos.root, folder)
    whole, bad = (folder / LONG).read_bytes(), folder / "bad"
    bad.mkdir()
    (bad / "cut.avi").write_bytes(whole[: len(whole) // 2])
    (bad / "damaged.avi").write_bytes(whole[:40_000] + bytes(500) + whole[40_500:])
    (bad / "empty.avi").touch()
    (bad / "text.avi").write_bytes(b"no video at all " * 100)
    make_avi(bad / "palette.avi", frames=20, codec="cinepak", pixels="rgb24", size=(32, 48))


def decoder_of(
    root: str | Path, file_cache: Path | None = None, file_cache_gb: float | None = None
) -> Decoder:
    """A worker's decoder, with a file cache in a folder."""
    directory = CacheDirectory.of(file_cache, file_cache_gb)
    return Decoder(root, folders=CacheDirectories(file_cache=directory))


def clip_of(decoder: Decoder, path: str, seed: int = 0) -> tuple[bytes, bytes] | str:
    """Frame numbers and pixels of a clip, or the error."""
    out: npt.NDArray[np.uint8] = np.zeros((1, *SPEC.shape), np.uint8)
    try:
        return decoder.decode(path, SPEC, [Clip(seed)], out).tobytes(), out.tobytes()
    except VideoError as error:
        return str(error)


def assert_same_files(here: Decoder, there: Decoder, folder: Path) -> list[str]:
    """Compare clips, fingerprints and indexes of all files, twice. Returns the good files."""
    good = set()
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.avi"))]
    for seed, path in enumerate([*paths, *paths]):
        found = clip_of(here, path, seed)
        assert clip_of(there, path, seed) == found, path
        assert there.videos.fingerprint(path) == here.videos.fingerprint(path)
        if not isinstance(found, str):
            good.add(path)
            a, b = (
                each.videos.index(path)._replace(opening=()).to_bytes() for each in (here, there)
            )
            assert a == b
    return sorted(good)


def read_bytes(storage: Storage, path: str, length: int, at: int = 0) -> bytes:
    """The bytes of a file, as a worker waits for them."""

    def read() -> bytes:
        with storage.reading(path, lambda: None):
            file = storage.resolve(path)
            data = bytes(file.open().pread(length, at))
            file.check()
            return data

    return retry_if_replaced(path, read)


def wait_until_cached(root: str, disk: Path, server: ObjectServer, paths: Sequence[str]) -> None:
    """Read these files again and again, until only one byte is requested of each: whether it has
    changed."""

    def are_cached() -> bool:
        server.requests.clear()
        storage = open_storage(root, CacheDirectory.of(disk, None))
        for path in paths:
            read_bytes(storage, path, (server.folder / path).stat().st_size)
        return all(sent <= 1 for _, sent in asked(server))

    wait_until(are_cached, 60 * SECOND)
