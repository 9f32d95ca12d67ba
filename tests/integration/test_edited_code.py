"""A module of the user's is edited while a training runs, or differs between hosts: no batch is of
two versions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.videos import make_levels
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, TransformError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 * SECOND)]

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


def test_local_workers_run_the_code_of_the_streams_beginning(
    write: Callable[..., str], catalog: Catalog
) -> None:
    with Client(workers=1) as client:
        stream = client.stream(catalog, CLIP, 2, slots=2)
        seen = set[float]()
        for step, (numbers, _) in enumerate(stream.batches()):
            seen.update(numbers.tolist())
            if step % 2 == 0 and step < 20:  # at ten places
                write(step + 2 if step < 16 else "no module any more (")
            if step in (3, 17):
                for worker in children_of(os.getpid()):
                    os.kill(worker, signal.SIGKILL)
        assert seen == {1.0}
        write(7)
        with pytest.raises(TransformError, match=r"beside\.py was edited since this client's"):
            client.stream(catalog, CLIP, 2)
        write(1)
        assert client.stream(catalog, CLIP, 2).fingerprint == stream.fingerprint
        write(7)
        before = stream.fingerprint
    with Client(workers=1) as client:
        again = client.stream(catalog, CLIP, 2)
        assert next(iter(again))[0].tolist() == [7.0, 7.0]
        assert again.fingerprint != before


def test_a_host_with_other_code_decodes_nothing_and_both_logs_say_why(
    write: Callable[..., str],
    catalog: Catalog,
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("videoload.leases.blame._COMING_S", 0.1)  # no other worker will come
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
        with pytest.raises(TransformError, match=r"the code of edited is not the same") as raised:
            list(stream)
        assert f"({tmp_path}/there/edited.py, digest " in str(raised.value)
        assert str(raised.value) in has_other.err
        assert str(raised.value) in caplog.text
        same()
        client.wait_for_workers(2, 60 * SECOND)
        stream = client.stream(catalog, CLIP, 2)
        assert {float(number) for numbers, _ in stream for number in numbers} == {1.0}
        assert not stream.quarantine
