"""A Slurm cluster of this host alone: the real daemons, with nodes that are only names."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.waiting import SECOND, wait_until

NODES = {"gpu0": "Gres=gpu:1", "cpu0": "", "cpu1": ""}
_SIZE = "CPUs=4 RealMemory=64000"  # MiB; nobody looks
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")

# Nodes differ by name and port. Steps are found by the ancestry of their process group, since there
# is no cgroup to hold them.
_CONF = """\
ClusterName=videoload
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
GresTypes=gpu
FirstJobId={job}
PartitionName=all Nodes=ALL Default=YES
"""


class Cluster:
    """Commands of a running cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(self, *command: str, **settings: str) -> str:
        """What a Slurm command prints; ``settings`` are additional variables."""
        done = subprocess.run(
            command, env=self.environment | settings, cwd=self._folder,
            capture_output=True, text=True, check=False, timeout=20 * SECOND,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def states(self, job: str) -> set[str]:
        """The states of the job's parts, RUNNING for example."""
        words = self.run("scontrol", "--oneliner", "show", "job", job).split()
        return {word.removeprefix("JobState=") for word in words if "JobState=" in word}

    def log(self, job: str) -> str:
        """What the job has printed so far; NUMBER_TASK of an array."""
        file = self._folder / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with the nodes of `NODES`, until the block is left. Skips the test if there is no
    Slurm."""
    missing = [name for name in _DAEMONS if shutil.which(name) is None]
    if missing or os.geteuid() != 0 or not os.environ.get("VIDEOLOAD_SLURM"):
        # Beside other tests its jobs sometimes stayed pending, so it runs only where it is asked
        # for.
        pytest.skip(f"needs VIDEOLOAD_SLURM=1, root and Slurm ({', '.join(missing) or 'is there'})")
    host, (port, *ports) = socket.gethostname(), free_ports(1 + len(NODES))
    job = random.randrange(1, 1 << 20)  # the trainer's port depends on it
    nodes = "".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={at} {_SIZE} {what}\n"
        for (name, what), at in zip(NODES.items(), ports, strict=True)
    )
    conf = folder / "slurm.conf"
    conf.write_text(nodes + _CONF.format(folder=folder, host=host, port=port, job=job))
    (folder / "gres.conf").write_text("NodeName=gpu0 Name=gpu File=/dev/null\n")
    (folder / "munge.key").write_bytes(random.randbytes(1024))
    (folder / "munge.key").chmod(0o400)
    names = {"socket": "sock", "key-file": "key", "pid-file": "pid", "log-file": "log"}
    files = [f"--{option}={folder}/munge.{end}" for option, end in names.items()]
    made = Cluster(folder)
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", f"--seed-file={folder}/munge.seed", *files],
            ["slurmctld", "-D", "-f", str(conf)],
            *(["slurmd", "-D", "-f", str(conf), "-N", name] for name in NODES),
        ):
            if command[0] == "slurmctld":
                (folder / "state").mkdir()
                wait_until((folder / "munge.sock").exists, 10 * SECOND)
            stack.enter_context(_daemon(command, made.environment))
        wait_until(
            lambda: _says(made, "sinfo", "-h", "-o", "%T %D").split() == ["idle", str(len(NODES))],
            30 * SECOND,
        )
        try:
            yield made
        finally:
            made.run("scancel", "--me")
            wait_until(
                lambda: not made.run("squeue", "-h", "-t", "running,completing"), 40 * SECOND
            )


def _says(made: Cluster, *command: str) -> str:
    """What a command prints; nothing while the cluster does not answer."""
    with suppress(AssertionError, subprocess.TimeoutExpired):
        return made.run(*command)
    return ""


@contextmanager
def _daemon(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10 * SECOND)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
