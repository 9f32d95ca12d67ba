"""The scripts of services/slurm, unchanged, on a real Slurm."""

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

from tests.support.digests import digest
from tests.support.needs import needs_tensorflow
from tests.support.programs import Programs
from tests.support.slurm import Cluster, cluster
from tests.support.trained import SMALL, STEPS, VIDEOS_OF_A_CLASS, expected, make_classes
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec, decode_serially, native

pytestmark = pytest.mark.timeout(200 * SECOND)

PROJECT = Path(__file__).parents[2]
TRAIN, DECODE = (PROJECT / f"services/slurm/{name}.sbatch" for name in ("train", "decode"))
EXAMPLE = ("python", "-m", "services.trainer.train")
EPOCHS = 150
BUSY = {"PENDING", "RUNNING", "COMPLETING"}


@pytest.mark.parametrize(
    ("script", "words", "given", "missing"),
    [
        (TRAIN, ["true"], [], "VIDEOLOAD_OUT: set it to the folder of .+"),
        (TRAIN, [], [], "usage: sbatch train.sbatch COMMAND-OF-THE-TRAINER"),
        (DECODE, [], [], "name the number of the job of the trainer"),
        (DECODE, ["1"], [], "VIDEOLOAD_VIDEOS: set it to the folder of .+"),
        (DECODE, ["1"], ["VIDEOLOAD_VIDEOS"], "VIDEOLOAD_OUT: set it to the folder of .+"),
    ],
)
def test_a_script_names_what_it_needs(
    script: Path, words: list[str], given: list[str], missing: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIDEOLOAD_")}
    done = subprocess.run(
        ["bash", str(script), *words], env=environment | dict.fromkeys(given, "/"),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert re.search(missing, done.stderr)


def test_the_memory_of_a_decoders_job_is_enough_for_each_of_its_processes() -> None:
    cores, gib = map(int, re.findall(r"--cpus-per-task=(\d+) --mem=(\d+)G", DECODE.read_text())[0])
    assert gib << 30 > cores * native._MEMORY_BYTES


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
    srun = '#!/bin/bash\ncat "$VIDEOLOAD_OUT"/trainer-*; ls "$VIDEOLOAD_KEYS"; echo "$*"\n'
    videoload = f'#!/bin/bash\nexec {sys.executable} -m videoload "$@"\n'
    for name, text in (("srun", srun), ("videoload", videoload)):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT), "VIDEOLOAD_OUT": str(tmp_path / "out"),
        "SLURM_CPUS_PER_TASK": "3",
    }  # fmt: skip
    with taken_port(range(20000, 30000, 2)) as port:
        done = subprocess.run(
            ["bash", str(TRAIN), "my", "trainer"],
            env=environment | {"SLURM_JOB_ID": str((port - 20000) // 2)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, address, *keys, command = done.stdout.partition("job ")[2].splitlines()
    assert said.endswith(address)
    assert port < int(address.rpartition(":")[2]) < port + 100
    assert address.startswith(f"tcp://{socket.gethostname()}:")
    assert {"admitted", "trainer.key_secret"} <= {*keys}
    assert command == "--cpus-per-task=3 my trainer"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["keys"]


def test_decoders_follow_the_trainer_and_end_with_its_job(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    queue, address = tmp_path / "queue", tmp_path / "trainer-7"
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
    queue.write_text("77\n7\n")  # it waits for a node
    bash = "import os, sys; os.execvp('bash', ['bash', *sys.argv[1:]])"
    program = programs.python("-c", bash, str(DECODE), "7", env=environment)
    for host in ("one", "two"):  # started, and started again elsewhere
        address.write_text(f"tcp://{host}:1\n")
        program.wait_for(f"worker --connect tcp://{host}:1", 30 * SECOND)
        address.unlink()
    queue.unlink()  # Slurm does not answer
    assert program.out.split("\n") == [
        "worker --connect tcp://one:1", "left", "worker --connect tcp://two:1", "",
    ]  # fmt: skip
    assert program.process.poll() is None
    queue.write_text("77\n")
    assert program.wait(30 * SECOND) == 0, program.err
    assert program.out.endswith("left\n")


class Training:
    """A trainer's job and an array of decoders, on a cluster."""

    def __init__(self, slurm: Cluster, folder: Path, *command: str, **settings: str) -> None:
        self.slurm = slurm
        settings |= {"VIDEOS": str(folder / "videos"), "OUT": str(folder / "out")}
        environment = {f"VIDEOLOAD_{name}": value for name, value in settings.items()}
        environment["PYTHONPATH"] = str(PROJECT)
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

        def submit(*words: str) -> str:
            return slurm.run("sbatch", "--parsable", *words, **environment).strip()

        self.job = submit(str(TRAIN), *command)
        self.decoders = submit("--array=1-2", str(DECODE), self.job)

    @property
    def log(self) -> str:
        return self.slurm.log(self.job)

    def wait(self, condition: Callable[[], object], timeout_s: float) -> None:
        try:
            wait_until(condition, timeout_s)
        except TimeoutError:
            decoders = [self.slurm.log(f"{self.decoders}_{task}") for task in (1, 2)]
            pytest.fail("\n".join([str(self.slurm.states(self.job)), self.log, *decoders]))

    def end(self) -> None:
        """Wait for the end of all jobs."""
        self.wait(lambda: not self.slurm.states(self.job) & BUSY, 120 * SECOND)
        assert self.slurm.states(self.job) == {"COMPLETED"}, self.log
        self.wait(lambda: not self.slurm.states(self.decoders) & BUSY, 60 * SECOND)
        assert self.slurm.states(self.decoders) == {"COMPLETED"}


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster") as made:
        yield made


@pytest.mark.slow
@needs_tensorflow
@pytest.mark.timeout(400 * SECOND)
@pytest.mark.xdist_group("timing")  # its daemons are slow on a busy machine
def test_a_job_trains_on_the_right_clips_and_resumes_when_requeued(
    slurm: Cluster, tmp_path: Path
) -> None:
    make_classes(tmp_path / "videos")
    position = tmp_path / "out/position.json"
    training = Training(
        slurm, tmp_path, *EXAMPLE, EPOCHS=str(EPOCHS), VERIFY="1", WORKERS="8",
        SAVE_EVERY=str(STEPS), **SMALL,
    )  # fmt: skip
    job = training.job
    training.wait(lambda: "Epoch 3/" in training.log, 150 * SECOND)
    slurm.run("scancel", "--batch", "--signal=USR1", job)  # as if its time were nearly over
    training.wait(lambda: slurm.states(job) == {"PENDING"}, 60 * SECOND)
    trained = json.loads(position.read_text())["batches"]
    assert 2 * STEPS <= trained < EPOCHS * STEPS
    # Slurm would let two minutes pass.
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    training.end()
    assert "start 2: trainer at tcp://" in training.log
    assert f"continuing after {trained} batches" in training.log
    assert training.log.count(expected(tmp_path / "videos")) == 2
    assert json.loads(position.read_text())["batches"] == EPOCHS * STEPS
    assert f"{2 * (VIDEOS_OF_A_CLASS - 4)} test videos: accuracy" in training.log


SPEC, BATCH, PASSES = ClipSpec(frames=4, resize=32, size=(32, 32), sampling="random"), 2, 4
READER = """
import os, sys
from pathlib import Path
import videoload as vl
from tests.integration.test_slurm import BATCH, PASSES, SPEC
from tests.support.digests import digest
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec, decode_serially, native

out = Path(os.environ["VIDEOLOAD_OUT"])
with vl.Client(
    workers=0, listen=os.environ["VIDEOLOAD_LISTEN"], keys=os.environ["VIDEOLOAD_KEYS"]
) as client:
    client.wait_for_workers(8, 120 * SECOND)
    catalog = vl.Catalog.from_folder(os.environ["VIDEOLOAD_VIDEOS"])

    def batches():
        stream = client.stream(catalog, SPEC, BATCH, shuffle=True)
        for step, batch in enumerate(stream.batches(epochs=PASSES)):
            yield batch
            if step == 3:
                print("three batches", flush=True)
                wait_until(lambda: len(client.workers) == 4, 120 * SECOND)
                print("four are left", flush=True)

    print("digest", digest(batches()), flush=True)
    client.wait_for_workers(8, 240 * SECOND)
    print("eight again", flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(400 * SECOND)
@pytest.mark.xdist_group("timing")
def test_a_decoder_node_that_goes_down_changes_nothing_and_is_replaced_when_it_is_back(
    slurm: Cluster, tmp_path: Path
) -> None:
    make_classes(tmp_path / "videos")
    (tmp_path / "reader.py").write_text(READER)
    training = Training(slurm, tmp_path, "python", str(tmp_path / "reader.py"))
    training.wait(lambda: "three batches" in training.log, 120 * SECOND)
    lost = slurm.run("squeue", "-h", "-j", f"{training.decoders}_1", "-o", "%N").strip()
    slurm.run("scontrol", "update", f"nodename={lost}", "state=down", "reason=lost")
    training.wait(lambda: "digest" in training.log, 120 * SECOND)
    assert slurm.states(training.job) == {"RUNNING"}
    slurm.run("scontrol", "update", f"nodename={lost}", "state=resume")
    slurm.run("scontrol", "update", f"JobId={training.decoders}_1", "StartTime=now")
    training.end()
    catalog = Catalog.from_folder(tmp_path / "videos")
    right = digest(decode_serially(catalog, SPEC, BATCH, epochs=PASSES, shuffle=True))
    job, *said = re.findall("^(?:job|three|four|digest|eight) .*", training.log, re.M)
    assert said == ["three batches", "four are left", f"digest {right}", "eight again"]
    assert "start 1:" in job
