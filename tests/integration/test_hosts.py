"""Workers of several hosts: each video goes to the same host in each epoch, and no byte changes.

A host is known by its name, so a worker in a UTS namespace of its own runs on another host.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import transforms
from tests.support.digests import digest
from tests.support.programs import Program, Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, decode_serially

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), crop="random", sampling="random", flip=True)
BATCH, VIDEOS = 8, 48
_CLONE_NEWUTS = 0x04000000
_WORKER = f"""
    import ctypes, socket, sys
    sys.path.insert(0, {str(Path(__file__).parents[2])!r})
    from tests.support.lone_worker import main

    name = sys.argv.pop(1)
    ctypes.CDLL(None).unshare({_CLONE_NEWUTS})
    socket.sethostname(name)
    main()
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Many short videos. Skips if hosts cannot have names of their own."""
    with ThreadPoolExecutor(1) as thread:  # of this thread alone
        if thread.submit(ctypes.CDLL(None).unshare, _CLONE_NEWUTS).result():
            pytest.skip("needs root")
    videos = Videos(tmp_path_factory.mktemp("videos"))
    for number in range(VIDEOS):
        videos.add(f"class/{number}.avi", frames=12, size=(48, 64), seed=number)
    return videos.catalog


@pytest.fixture(scope="module")
def expected(catalog: Catalog) -> str:
    return digest(decode_serially(catalog, CLIP, BATCH, shuffle=True, seed=5, epochs=4))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A trainer with a worker and a frame store of its own."""
    with Client(1, listen="tcp://127.0.0.1:*", frame_store=tmp_path / "here") as client:
        yield client


def host(name: str, programs: Programs, client: Client, catalog: Catalog, store: Path) -> Program:
    """A host with one worker and a frame store."""
    flags = (
        "--root",
        str(catalog.root),
        "--frame-store",
        str(store),
        "--allow",
        "tests.support.transforms",
    )
    started = programs.script(_WORKER, name, "worker", "--connect", client.endpoints[0], *flags)
    client.wait_for_workers(2, 30 * SECOND)
    return started


@pytest.mark.nightly
def test_a_file_is_decoded_on_the_same_host_in_each_epoch(
    client: Client, programs: Programs, catalog: Catalog, tmp_path: Path
) -> None:
    host("elsewhere", programs, client, catalog, tmp_path)
    where = replace(CLIP, transform=transforms.where, output=((), "int64"))
    stream = client.stream(catalog, where, BATCH, shuffle=True, seed=5)
    hosts: dict[int, list[int]] = {video: [] for video in range(VIDEOS)}
    for clips, _, info in stream.batches(epochs=8, info=True):
        for video, name in zip(info.video.tolist(), clips.tolist(), strict=True):
            hosts[video].append(name)
    assert len({where for each in hosts.values() for where in each}) == 2
    again = sum(Counter(each).most_common(1)[0][1] for each in hosts.values())
    assert again > 0.8 * 8 * VIDEOS  # without preference, it is 0.64 on average


def test_a_host_that_is_killed_and_comes_back_changes_no_byte(
    client: Client, programs: Programs, catalog: Catalog, expected: str, tmp_path: Path
) -> None:
    def interrupted() -> Iterator[object]:
        for number, batch in enumerate(stream.batches(epochs=4)):
            if number == 8:
                first.end()
            if number == 14:
                host("elsewhere", programs, client, catalog, there)
            yield batch

    there = tmp_path / "there"
    first = host("elsewhere", programs, client, catalog, there)
    stream = client.stream(catalog, CLIP, BATCH, shuffle=True, seed=5)
    assert digest(interrupted()) == expected
    assert len({worker.host for worker in client.workers}) == 2
