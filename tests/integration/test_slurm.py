"""The scripts of services/slurm, unchanged, on a real Slurm."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.programs import Programs
from tests.support.waiting import SECOND

PROJECT = Path(__file__).parents[2]
TRAIN, DECODE = (PROJECT / f"services/slurm/{name}.sbatch" for name in ("train", "decode"))


def test_the_memory_of_a_decoders_job_is_enough_for_each_of_its_processes() -> None:
    cores, gib = map(int, re.findall(r"--cpus-per-task=(\d+) --mem=(\d+)G", DECODE.read_text())[0])
    assert gib > 4 * cores, "a file that takes 4 GiB is named before the kernel kills"


def test_half_made_keys_hold_no_job_up(tmp_path: Path) -> None:
    (tmp_path / "out/keys/trainer").mkdir(parents=True)  # the job was killed then
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    srun = '#!/bin/bash\necho "$VIDEOLOAD_LISTEN"; ls "$VIDEOLOAD_KEYS"; echo "$*"\n'
    videoload = f'#!/bin/bash\nexec {sys.executable} -m videoload "$@"\n'
    for name, text in (("srun", srun), ("videoload", videoload)):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT), "VIDEOLOAD_OUT": str(tmp_path / "out"),
        "SLURM_CPUS_PER_TASK": "3",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", str(TRAIN), "my", "trainer"], env=environment | {"SLURM_JOB_ID": "10007"},
        capture_output=True, text=True, check=False, timeout=60 * SECOND,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, address, *keys, command = done.stdout.partition("job ")[2].splitlines()
    assert said.endswith(f"tcp://{socket.gethostname()}:20007")
    assert address == "tcp://0.0.0.0:20007"
    assert {"admitted", "trainer.key_secret"} <= {*keys}
    assert command == "--cpus-per-task=3 my trainer"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["keys"]


def test_decoders_follow_the_trainer_and_end_with_its_job(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    queue = tmp_path / "queue"
    for name, text in {
        "squeue": f"cat {queue}",
        "videoload": 'trap "echo left; exit 0" TERM; echo "$*"; while :; do sleep 1; done',
        "sleep": "exec /bin/sleep 0.05",
    }.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "4",
        "VIDEOLOAD_VIDEOS": "/", "VIDEOLOAD_OUT": str(tmp_path),
    }  # fmt: skip
    queue.write_text("77 other\n7 n/a\n")  # it waits for a node
    bash = "import os, sys; os.execvp('bash', ['bash', *sys.argv[1:]])"
    program = programs.python("-c", bash, str(DECODE), "7", env=environment)
    for host in ("one", "two"):  # started, and started again elsewhere
        queue.write_text(f"77 other\n7 {host}\n")
        program.wait_for(f"worker --connect tcp://{host}:20007", 30 * SECOND)
    queue.write_text("7 n/a\n")  # it waits again, and the worker for it
    queue.unlink()  # Slurm does not respond
    assert program.out.split("\n") == [
        "worker --connect tcp://one:20007", "left", "worker --connect tcp://two:20007", "",
    ]  # fmt: skip
    assert program.process.poll() is None
    queue.write_text("77 other\n")
    assert program.wait(30 * SECOND) == 0, program.err
    assert program.out.endswith("left\n")
