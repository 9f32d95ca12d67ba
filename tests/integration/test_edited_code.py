"""A module of the user's is edited while a training runs, or differs between hosts: no batch is of
two versions."""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.videos import make_levels
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, TransformError

pytestmark = pytest.mark.slow

# Keeps nothing of the module in the process that tests.
CODE = "from beside import level\ndef change(clip, rng): return np.float32(level())\n"
CLIP = ClipSpec(
    1, size=(2, 2), pixels="gray", sampling="uniform", clips_per_video=40,
    transform="edited:change", output=((), "float32"),
)  # fmt: skip


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Of 40 clips."""
    return make_levels(tmp_path, {"a.avi": 0})


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def write(level: object, folder: str = "here") -> str:
        """Write the module and what it imports; returns their folder."""
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "edited.py").write_text(f"import numpy as np\n{CODE}")
        (tmp_path / folder / "beside.py").write_text(f"def level(): return {level}\n")
        return str(tmp_path / folder)

    monkeypatch.syspath_prepend(write(1))
    return write


def test_no_batch_is_of_two_versions(write: Callable[..., str], catalog: Catalog) -> None:
    with Client(workers=1) as client:
        stream = client.stream(catalog, CLIP, 2, slots=2)
        batches = stream.batches()
        seen = [*next(batches)[0]]
        write(20)
        seen += [number for _ in range(6) for number in next(batches)[0]]  # of the worker that runs
        for worker in children_of(os.getpid()):
            os.kill(worker, signal.SIGKILL)
        with pytest.raises(TransformError, match="beside"):
            seen += [number for numbers, _ in batches for number in numbers]
        assert {*seen} == {1.0}
        before = stream.fingerprint
    with Client(workers=1) as client:
        again = client.stream(catalog, CLIP, 2)
        assert next(iter(again))[0].tolist() == [20.0, 20.0]
        assert again.fingerprint != before


def test_a_module_whose_import_hangs_is_named_when_the_stream_is_made(
    write: Callable[..., str], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.client.fresh_import.IMPORT_S", 0.5 * SECOND)
    folder = write(2)
    Path(folder, "edited.py").write_text("import threading\nthreading.Event().wait()\n")
    with (
        Client(workers=1, stall_s=1.0 * SECOND) as client,
        pytest.raises(TransformError, match="edited"),
    ):
        client.stream(catalog, CLIP, 2)


def test_a_function_object_that_is_not_what_workers_import_is_refused(
    write: Callable[..., str], catalog: Catalog
) -> None:
    write(1)
    edited = importlib.import_module("edited")
    clip = replace(CLIP, transform=edited.change)
    try:
        with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
            client.stream(catalog, clip, 2)
            edited.level = len  # type: ignore[attr-defined]
            with pytest.raises(TransformError, match=r"edited:change.*edited\.level"):
                client.stream(catalog, clip, 2)
    finally:
        del sys.modules["edited"], sys.modules["beside"]


def test_a_host_with_other_code_decodes_nothing_and_both_logs_say_why(
    write: Callable[..., str],
    catalog: Catalog,
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("videoload.scheduler.blame.COMING_S", 0.1)  # no other worker will come
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        paths = [f"{Path.cwd()}:{write(1)}", f"{Path.cwd()}:{write(2, 'there')}"]
        same, other = (
            partial(
                programs.worker, client.endpoints[0], tmp_path, "--allow", "edited",
                env={"PYTHONPATH": path}, imported="",  # a forked one has a path of its own
            )
            for path in paths
        )  # fmt: skip
        has_other = other()
        stream = client.stream(catalog, CLIP, 2)
        with pytest.raises(TransformError, match="beside") as raised:
            list(stream)
        assert f"({tmp_path}/there/beside.py, digest " in str(raised.value)
        assert str(raised.value) in has_other.err
        assert str(raised.value) in caplog.text
        same()
        client.wait_for_workers(2, 60 * SECOND)
        stream = client.stream(catalog, CLIP, 2)
        assert {float(number) for numbers, _ in stream for number in numbers} == {1.0}
        assert not stream.quarantine
