"""services/slurm/train.sbatch, unchanged, on a real Slurm."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.needs import needs_tensorflow
from tests.support.slurm import NODES, cluster
from tests.support.trained import SMALL, STEPS, VIDEOS_OF_A_CLASS, expected, make_classes
from tests.support.waiting import SECOND, wait_until

pytestmark = pytest.mark.timeout(200 * SECOND)

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "services/slurm/train.sbatch"
EPOCHS = 150
BUSY = {"PENDING", "RUNNING", "COMPLETING"}


def test_the_script_is_valid_bash_and_needs_two_variables() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True, timeout=60)
    for given, missing in (({}, "VIDEOLOAD_VIDEOS"), ({"VIDEOLOAD_VIDEOS": "/"}, "VIDEOLOAD_OUT")):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VIDEOLOAD_")}
        done = subprocess.run(
            ["bash", str(SCRIPT)],
            env=environment | given, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert re.search(rf"{missing}: set it to the folder of .+", done.stderr)


@contextmanager
def taken_port(ports: Iterable[int]) -> Iterator[int]:
    """One of the ports that was free, and is not now."""
    for port in ports:
        with suppress(OSError), socket.create_server(("", port)):
            yield port
            return


def test_half_made_keys_and_a_taken_port_hold_no_job_up(tmp_path: Path) -> None:
    (tmp_path / "out/keys/trainer").mkdir(parents=True)  # the job was killed then
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    srun = '#!/bin/bash\necho "$VIDEOLOAD_LISTEN ${*: -2}"; ls "${*: -1}"\n'
    videoload = f'#!/bin/bash\nexec {sys.executable} -m videoload "$@"\n'
    for name, text in (("srun", srun), ("videoload", videoload)):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT), "VIDEOLOAD_VIDEOS": "/", "VIDEOLOAD_OUT": str(tmp_path / "out"),
        **{f"SLURM_CPUS_PER_TASK_HET_GROUP_{group}": "1" for group in (0, 1)},
        **{f"SLURM_JOB_NODELIST_HET_GROUP_{group}": "n" for group in (0, 1)},
    }  # fmt: skip
    with taken_port(range(20000, 30000, 2)) as port:
        done = subprocess.run(
            ["bash", str(SCRIPT)], env=environment | {"SLURM_JOB_ID": str((port - 20000) // 2)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.findall(r"tcp://0.0.0.0:(\d+) --keys (\S+)", done.stdout)
    assert {keys for _, keys in found} == {
        f"{tmp_path}/out/keys/{x}" for x in ("worker", "trainer")
    }
    assert all(port < int(at) < port + 100 for at, _ in found)
    assert {"trainer.key", "worker.key_secret", "admitted", "trainer.key_secret"} <= {
        *done.stdout.split()
    }
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["keys"]


@pytest.mark.slow
@needs_tensorflow
@pytest.mark.timeout(400 * SECOND)
@pytest.mark.xdist_group("timing")  # its daemons are slow on a busy machine
def test_a_job_trains_on_the_right_clips_and_resumes_when_requeued(
    tmp_path: Path,
) -> None:
    make_classes(tmp_path / "videos")
    settings = {
        "VIDEOS": str(tmp_path / "videos"), "OUT": str(tmp_path / "out"), "EPOCHS": str(EPOCHS),
        "VERIFY": "1", "WORKERS": "8", "SAVE_EVERY": str(STEPS), **SMALL,
    }  # fmt: skip
    environment = {f"VIDEOLOAD_{name}": value for name, value in settings.items()}
    position = tmp_path / "out/position.json"
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster") as slurm:
        job = slurm.run(
            "sbatch", "--parsable", str(SCRIPT), **environment,
            PYTHONPATH=str(PROJECT), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        ).strip()  # fmt: skip

        def wait(condition: Callable[[], object], timeout_s: float) -> None:
            try:
                wait_until(condition, timeout_s)
            except TimeoutError:
                pytest.fail(f"{slurm.states(job)}\n{slurm.log(job)}")

        wait(lambda: "Epoch 3/" in slurm.log(job), 150 * SECOND)
        slurm.run("scancel", "--batch", "--signal=USR1", job)  # as if its time were nearly over
        wait(lambda: slurm.states(job) == {"PENDING"}, 60 * SECOND)
        trained = json.loads(position.read_text())["batches"]
        assert 2 * STEPS <= trained < EPOCHS * STEPS
        for part in ("+0", "+1"):
            # Slurm would let two minutes pass.
            slurm.run("scontrol", "update", f"JobId={job}{part}", "StartTime=now")
        wait(lambda: not slurm.states(job) & BUSY, 120 * SECOND)
        log = slurm.log(job)
        assert slurm.states(job) == {"COMPLETED"}, log
    trainer, *workers = NODES
    assert f"start 2: trainer on {trainer}, workers on cpu[0-1]" in log
    assert len(workers) == 2
    assert f"continuing after {trained} batches" in log
    assert log.count(expected(tmp_path / "videos")) == 2
    assert json.loads(position.read_text())["batches"] == EPOCHS * STEPS
    assert f"{2 * (VIDEOS_OF_A_CLASS - 4)} test videos: accuracy" in log
