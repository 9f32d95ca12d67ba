"""The command line as a user sees it: one clear line, the right exit status, an end when
asked to."""

import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.processes import catches, children_of, maps_of
from tests.support.programs import Programs
from tests.support.thorough import either, in_pairs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec
from videoload.__main__ import main

# The promise is two seconds. A push runs on a busy machine, where it may take longer.
SOON_S = either(30, 2) * SECOND
START_S = 30 * SECOND

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
BUSY = ClipSpec(frames=32, resize=112, size=(112, 112), sampling="random", clips_per_video=100)


RunHere = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    """Runs a command that only prints in this process, by the words behind ``videoload``; returns
    status, stdout and stderr."""

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["videoload", *arguments])
        monkeypatch.setattr(logging.root, "handlers", [])  # the command sets its own
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


# Mistakes of the user: status 1 and one line

WORKER = ["worker", "--root", "{tmp}", "--connect"]
HERE = "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((["worker", "--connect", HERE, "--root", root], ["--root", root])
          for root in ("{tmp}/none", "{tmp}/file")),
        *(([*WORKER, address], [address]) for address in (
            "127.0.0.1:5555", "tcp://127.0.0.1", "tcp://localhost:70000", "http://127.0.0.1:80",
            "tcp://127.0.0.1:1,tcp://127.0.0.1:2", "tcp://::1:5555", "tcp://127.0.0.1:0")),
        ([*WORKER, "tcp://127.0.0.1:*"], ["tcp://127.0.0.1:*"]),
        ([*WORKER, HERE, "--connect", "tcp://gpu-7:5555"],
         ["tcp://gpu-7:5555", "videoload keygen", "--insecure"]),
        *(([*WORKER, HERE, "--allow", module], [f"--allow {module}", "PYTHONPATH"])
          for module in ("tests.transfroms", "transforms.mine")),
        ([*WORKER, "tcp://gpu-7:5555", "--keys", "{tmp}/none"],
         ["{tmp}/none/worker.key_secret", "No such file", "videoload keygen"]),
        (["index", "{videos}", "--add", "{tmp}/none"], ["--add", "{tmp}/none"]),
        *((["index", "{videos}", option, path], [option, path])
          for option in ("--add", "--out") for path in ("{tmp}/latin.csv", "{tmp}", "/dev/null")),
        (["scan", "{videos}", "--root", "{tmp}"], ["{videos}", "{tmp}"]),
        (["scan", "{videos}/run/wide.avi"], ["wide.avi"]),
        (["scan", "{videos}", "--output", "{tmp}/latin.csv"], ["{tmp}/latin.csv"]),
        (["scan", "{videos}", "--html", "{tmp}/none/page.html", "--output", "{tmp}/scan.csv"],
         ["{tmp}/none/page.html", "No such file"]),
        (["scan", "{tmp}/" + "n" * 5000], ["File name too long"]),
        (["scan", "{tmp}/no:x:where"], ["{tmp}/no:x:where"]),
        (["preview", "{videos}", "--clip", "size=(112, 112)"], ["--clip", "frames="]),
        (["top", "tcp://*:5555"], ["tcp://*:5555"]),
        (["keygen", "{tmp}/file"], ["{tmp}/file", "Not a directory"]),
    ],
    ids=lambda told: " ".join(told)[:60],
)  # fmt: skip
def test_every_mistake_is_reported_in_one_line(
    arguments: list[str], words: list[str], run_here: RunHere, videos: Videos, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "latin.csv").write_bytes(b"n\xe4me\n")
    places = {"videos": videos.root, "tmp": tmp_path}
    status, out, err = run_here(*(argument.format(**places) for argument in arguments))
    assert status == 1, err
    assert arguments[0] != "worker" or not out
    assert err.startswith("videoload: ")
    assert err.count("\n") == 1
    assert all(word.format(**places) in err for word in words), err
    assert not (tmp_path / "scan.csv").exists()


def test_a_full_disk_is_reported_in_one_line(videos: Videos, programs: Programs) -> None:
    command = f"{sys.executable} -m videoload scan {videos.root} > /dev/full"
    done = subprocess.run(
        command, shell=True, check=False, capture_output=True, text=True, timeout=40 * SECOND
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_a_command_is_imported_prints_no_traceback() -> None:
    script = (
        "import os, signal, sys\n"
        "class CtrlC:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, CtrlC())\n"
        "from videoload.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=START_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_ends_a_command_though_a_thread_of_the_users_runs() -> None:
    script = (
        "import atexit, os, signal, sys, threading, time\n"
        "import videoload.tools.cli as cli\n"
        "def scores():\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    atexit.register(print, 'cleaned up')\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(600)\n"
        "cli.app.command()(scores)\n"
        "sys.argv[1:] = ['scores']\n"
        "from videoload.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=START_S, check=False
    )
    assert (done.returncode, done.stdout.split()) == (130, [b"cleaned", b"up"]), done.stderr


def test_the_version_is_printed(programs: Programs) -> None:
    program = programs.videoload("--version", imported="")  # as a user starts it
    assert program.wait(START_S) == 0
    assert program.out.startswith("videoload 0.")


# A worker's life


@pytest.mark.parametrize(
    ("state", "processes", "number"),
    in_pairs(["waiting for a trainer", "decoding"], [1, 2], [signal.SIGTERM, signal.SIGINT]),
)
def test_a_worker_ends_within_two_seconds_of_the_signal(
    state: str, processes: int, number: int, videos: Videos, programs: Programs
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        endpoint = client.endpoints[0]
        if state == "waiting for a trainer":
            endpoint = f"tcp://127.0.0.1:{free_port()}"
        worker = programs.worker(endpoint, videos.root, "--workers", str(processes))
        if state == "waiting for a trainer":
            wait_until(lambda: len(children_of(worker.pid)) == processes, START_S)
            for pid in (worker.pid, *children_of(worker.pid)):
                wait_until(lambda pid=pid: catches(pid, signal.SIGTERM), START_S)  # type: ignore[misc]
        else:
            client.wait_for_workers(processes, timeout_s=START_S)
            batches = iter(client.stream(videos.catalog, BUSY, 8))
            next(batches)
        family = [worker.pid, *children_of(worker.pid)]
        assert len(family) == 1 + processes
        worker.signal(number)
        assert worker.wait(SOON_S) == (0 if number == signal.SIGTERM else 130), worker.err
        assert "Traceback" not in worker.err
        wait_until(lambda: not any(maps_of(pid) for pid in family), SOON_S, "all of them are gone")


@pytest.mark.slow
def test_workers_whose_supervisor_is_killed_end_with_it(videos: Videos, programs: Programs) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        worker = programs.worker(client.endpoints[0], videos.root, "--workers", "2")
        client.wait_for_workers(2, timeout_s=START_S)
        children = children_of(worker.pid)
        assert len(children) == 2
        worker.signal(signal.SIGKILL)
        worker.wait(SOON_S)
        wait_until(lambda: not any(maps_of(pid) for pid in children), SOON_S)


@pytest.mark.slow
def test_a_worker_never_loads_tensorflow(videos: Videos, programs: Programs) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        worker = programs.worker(client.endpoints[0], videos.root, "--workers", "2")
        client.wait_for_workers(2, timeout_s=START_S)
        list(client.stream(videos.catalog, CLIP, 4))
        family = [worker.pid, *children_of(worker.pid)]
        assert len(family) == 3
        for pid in family:
            maps = "\n".join(maps_of(pid))
            assert "libzmq" in maps, "it is a worker whose maps these are"
            assert "tensorflow" not in maps
