"""`Client.run`: a task is done once with every row, wherever, and whatever ends meanwhile."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import videoload as vl
from tests.support.processes import arena_maps, children_of
from tests.support.programs import Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, wait_until
from videoload.client.serial import run_serially

COUNT = vl.Count(vl.ClipSpec(4, fps=5, size=8, sampling="dense"))
TASKS: list[Any] = [COUNT, vl.Report(), vl.Identify()]
MISSING, BROKEN = "missing.avi", "broken.avi"


@pytest.fixture(scope="module")
def catalog(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> vl.Catalog:
    """Good files, one that is missing, and one that is no video, which can be identified."""
    root = tmp_path_factory.mktemp("run")
    for number in range(20):
        make_avi(root / f"{number}.avi", frames=10 + number, seed=number)
    (root / BROKEN).write_bytes(b"this is no video" * 99)
    return vl.Catalog([f"{n}.avi" for n in range(10)] + [MISSING, BROKEN]
                      + [f"{n}.avi" for n in range(10, 20)], root=root)  # fmt: skip


def texts(found: Any) -> dict[int, str]:
    """The results by their rows, as text: errors are not equal to each other."""
    rows = [(row, f"{type(each).__name__}: {each}") for row, each in found]
    assert len(rows) == len({row for row, _ in rows}), "each row once"
    return dict(rows)


@contextmanager
def workers(where: str, programs: Programs, root: Any) -> Iterator[vl.Client]:
    with ExitStack() as stack:
        if where == "here":
            client = stack.enter_context(vl.Client(workers=2, cache=False))
        else:
            client = stack.enter_context(
                vl.Client(workers=0, listen="tcp://127.0.0.1:*", cache=False)
            )
            for _ in range(2):
                programs.worker(client.endpoints[0], root)
        client.wait_for_workers(2, timeout_s=60 * SECOND)
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "tcp"])
def test_each_row_has_the_result_that_it_has_in_this_process(
    where: str, catalog: vl.Catalog, programs: Programs
) -> None:
    with workers(where, programs, catalog.root) as client:
        for task in TASKS:
            found = texts(client.run(task, catalog))
            assert found == texts(run_serially(task, catalog))
            bad = {row for row, text in found.items() if text.startswith("VideoError")}
            paths = {MISSING} if task == vl.Identify() else {MISSING, BROKEN}
            assert {catalog.paths[row] for row in bad} == paths
            assert all(catalog.paths[row] in found[row] for row in bad), "by name"
        left = catalog.subset([3, 11])
        assert texts(client.run(COUNT, left)) == texts(run_serially(COUNT, left))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "tcp"])
def test_rows_of_workers_that_are_killed_go_to_others(
    where: str, catalog: vl.Catalog, programs: Programs
) -> None:
    expected = texts(run_serially(vl.Report(), catalog))
    with workers(where, programs, catalog.root) as client:
        results, got = client.run(vl.Report(), catalog), []
        for result in results:
            got.append(result)
            if len(got) == 2:
                os.kill(client.workers[0].pid, signal.SIGKILL)
        assert texts(got) == expected


def test_parts_of_a_sample_are_counted_together(videos: Videos, client: vl.Client) -> None:
    names = ["walk/gop12.avi", "walk/b_frames.avi"]
    one = vl.Catalog(names, root=videos.root)
    clip = vl.ClipSpec(4, size=8, sampling="dense")
    both = vl.Catalog.side_by_side(rgb=one, depth=one)
    task = vl.Count({"rgb": clip, "depth": vl.ClipSpec(4, size=8)})
    [*found] = client.run(task, both)
    assert texts(found) == texts(run_serially(task, both))
    assert all(len(each.displayed) == 2 for _, each in found if not isinstance(each, vl.VideoError))
    with pytest.raises(vl.SpecError, match="depth"):
        client.run(vl.Count({"rgb": clip}), both)


def test_a_run_that_is_left_or_whose_client_is_closed_leaves_nothing(
    catalog: vl.Catalog,
) -> None:
    with vl.Client(workers=1, cache=False) as client:
        before = len(arena_maps())
        client.run(COUNT, catalog)  # nobody reads it
        next(results := client.run(COUNT, catalog))
        next(other := client.run(vl.Report(), catalog))
        results.close()
        del results
        gc.collect()
        wait_until(lambda: len(arena_maps()) == before + 1, 30 * SECOND, "the memory of one run")
        assert len(texts(client.run(COUNT, catalog))) == len(catalog), "the client goes on"
        client.close()
        with pytest.raises(vl.ClosedError):
            list(other)
        with pytest.raises(vl.ClosedError):
            client.run(COUNT, catalog)


def test_what_is_no_task_or_has_no_root_is_refused(client: vl.Client, catalog: vl.Catalog) -> None:
    clip: Any = vl.ClipSpec(4)
    with pytest.raises(vl.SpecError, match="Count"):
        client.run(clip, catalog)
    with pytest.raises(vl.SpecError, match="root"):
        client.run(COUNT, vl.Catalog(["a.avi"]))


@pytest.mark.slow
def test_a_client_without_workers_of_its_own_counts_its_own_files_itself(
    catalog: vl.Catalog,
) -> None:
    before = {*children_of(os.getpid())}
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*", cache=False) as client:
        for _ in range(2):
            stream = client.stream(catalog[:10], vl.ClipSpec(4, fps=5, size=8, sampling="dense"), 4)
            assert len(stream) > 1
            wait_until(
                lambda: {*children_of(os.getpid())} == before, 30 * SECOND, "they have ended"
            )
        assert client.workers == ()
