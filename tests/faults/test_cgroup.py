"""Batches of an eighth of a gigabyte below the memory limit of a container, in a real cgroup. A
stream gets as many slots as fit, and slots that cannot fit are an error before the kernel kills."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import host

pytestmark = [pytest.mark.timeout(300 * SECOND), pytest.mark.slow]

CLIP_MB, BATCH_MB = 32, 128
LIMIT_MB = 1024  # holds four slots beside the processes, but not the default of eight

# It is in the cgroup before it first imports NumPy; its workers follow it there.
TRAINER = """
    import os
    import sys
    import zlib

    folder, root, *asked = sys.argv[1:]
    with open(folder + "/cgroup.procs", "w") as processes:
        processes.write(str(os.getpid()))

    from videoload import Catalog, Client, ClipSpec, decode_serially

    clip = ClipSpec(
        frames=128, size=(512, 512), resize=512, pixels="gray", sampling="random",
        clips_per_video=5,
    )
    catalog = Catalog.from_folder(root)
    options = {"shuffle": True, "seed": 3, "drop_remainder": False}
    with Client(workers=1) as client:
        for batch, slots in zip(map(int, asked[::2]), map(int, asked[1::2])):
            try:
                stream = client.stream(catalog, clip, batch, slots=slots or None, **options)
            except MemoryError as error:
                print(error)
                continue
            got = []
            for clips, _ in stream:
                got += map(zlib.crc32, clips)
                del clips
            print("slots", stream._readers._source.arena.slots, "bytes", batch * clip.clip_bytes)
            serial = decode_serially(catalog, clip, 1, **options)
            # In a larger batch, clips of one file stand together.
            assert sorted(got) == sorted(zlib.crc32(clips) for clips, _ in serial)
            print("the same")
"""


def _own_folder() -> tuple[Path, str] | None:
    """A folder where a cgroup with a memory limit can be made, and the file with that limit."""
    for version, folder in host._cgroups(host._CGROUP, host._OWN_CGROUP, "memory"):
        if version == 1:
            return folder, "memory.limit_in_bytes"
        with suppress(OSError):
            # A cgroup that has processes of its own gives no memory to its children, but its parent
            # may.
            if "memory" in (folder / "cgroup.subtree_control").read_text().split():
                return folder, "memory.max"
    return None


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup that may use `LIMIT_MB`; it is removed afterwards."""
    found = _own_folder()
    if found is None:
        pytest.skip("no cgroup of this process limits memory")
    above, limit = found
    folder = above / f"videoload-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {above}: {error.strerror}")
    try:
        try:
            (folder / limit).write_text(str(LIMIT_MB << 20))
        except OSError as error:
            pytest.skip(f"no limit can be set in {folder}: {error.strerror}")
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), 30 * SECOND, "it is empty")
        folder.rmdir()


def killed(folder: Path) -> int:
    """How many processes the kernel killed for their memory."""
    for name in ("memory.events", "memory.oom_control"):
        with suppress(OSError):
            words = (folder / name).read_text().split()
            return int(words[words.index("oom_kill") + 1])
    pytest.skip("this kernel does not count whom it kills")


def peak_mb(folder: Path) -> int:
    """The most memory that was in use."""
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        with suppress(OSError):
            return int((folder / name).read_text()) >> 20
    return 0


@pytest.mark.parametrize("slots", rest_nightly([0, 2]))
def test_a_stream_has_as_many_slots_as_fit_below_the_limit(
    slots: int, limited: Path, programs: Programs, videos: Videos, tell: Callable[[str], None]
) -> None:
    asked = str(BATCH_MB // CLIP_MB), str(slots)
    trainer = programs.script(TRAINER, str(limited), str(videos.root), *asked, imported="")
    assert trainer.wait(240 * SECOND) == 0, trainer.err
    made, batch = (int(trainer.out.split()[at]) for at in (1, 3))
    tell(
        f"{made} slots of {batch >> 20} MB below {LIMIT_MB} MB, {peak_mb(limited)} MB in use at "
        "most"
    )
    assert batch == BATCH_MB << 20
    assert made == slots or 2 < made < 8
    assert "the same" in trainer.out
    assert not killed(limited)


def test_slots_that_cannot_fit_are_refused_before_the_kernel_kills(
    limited: Path, programs: Programs, videos: Videos
) -> None:
    asked = [(8, 0), (8, 6), (15, 2), (17, 2)]  # clips of a batch, slots
    words = [str(number) for pair in asked for number in pair]
    trainer = programs.script(TRAINER, str(limited), str(videos.root), *words, imported="")
    assert trainer.wait(120 * SECOND) == 0, trainer.err
    refused = trainer.out.splitlines()
    assert len(refused) == len(asked)
    for line, (_, slots) in zip(refused, asked, strict=True):
        assert "of memory is left here (of this host, or below the limit of its container)" in line
        assert f"{slots or 4} batches of " in line
    assert not trainer.err
    assert not killed(limited)
