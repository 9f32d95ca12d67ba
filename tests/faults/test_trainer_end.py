"""However a trainer ends, its own workers end with it, and workers that dialled in wait for the
next one."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.digests import digest
from tests.support.leaks import private_sockets
from tests.support.needs import needs_tensorflow
from tests.support.ports import free_port
from tests.support.processes import children_of, descriptors, is_alive
from tests.support.programs import Program, Programs
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, ClosedError, decode_serially
from videoload.wire.messages import Lease, Welcome

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
# The promise is two seconds. A push runs on a busy machine, where it may take longer.
START_S = 30 * SECOND
GONE_S = either(30, 2) * SECOND

TRAINER = """
    import os, sys
    from videoload import Catalog, Client, ClipSpec

    how, root = sys.argv[1:3]
    clip = ClipSpec(frames=16, resize=112, size=(112, 112), sampling="random", clips_per_video=50)
    client = Client(workers=2 if len(sys.argv) == 3 else 0, listen=sys.argv[3:])
    client.wait_for_workers(2 if len(sys.argv) == 3 else 1)
    stream = client.stream(Catalog.from_folder(root), clip, 8, shuffle=True)
    batches = stream.batches(epochs=1000)
    next(batches)
    print("training", *[worker.pid for worker in client.workers], flush=True)
    if how == "is left open":
        kept = [client, stream, batches]
    elif how == "closes":
        client.close()
    elif how == "raises":
        raise RuntimeError("loss is nan")
    elif how == "exits at once":
        os._exit(4)
    else:
        for batch in batches:
            pass
"""


def start(
    programs: Programs, videos: Videos, how: str, *listen: str, **options: Any
) -> tuple[Program, list[int]]:
    """A trainer that is training, and its workers."""
    trainer = programs.script(TRAINER, how, str(videos.root), *listen, **options)
    trainer.wait_for("training", START_S)
    workers = [int(pid) for pid in trainer.out.splitlines()[0].split()[1:]]
    assert len(workers) == (1 if listen else 2)
    return trainer, workers


def gone(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    ("how", "status", "last"),
    [
        ("is left open", 0, ""),
        pytest.param("exits at once", 4, "", marks=pytest.mark.slow),
        pytest.param("raises", 1, "RuntimeError: loss is nan", marks=pytest.mark.slow),
    ],
)
def test_when_a_trainer_ends_its_workers_end_with_it(
    how: str, status: int, last: str, videos: Videos, programs: Programs
) -> None:
    trainer, workers = start(programs, videos, how)
    assert trainer.wait(GONE_S) == status
    wait_until(lambda: gone(workers), GONE_S, "its workers are gone")
    assert trainer.err.count("Traceback") == bool(last), trainer.err
    assert last in trainer.err


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGKILL, False),
        *[pytest.param(n, True, marks=pytest.mark.slow) for n in (signal.SIGHUP, signal.SIGINT)],
    ],
)
def test_a_signal_ends_a_trainer_its_workers_also_a_stopped_one_and_leaves_nothing_behind(
    number: int, group: bool, videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    """A terminal sends it to the workers as well."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    trainer, workers = start(
        programs, videos, "trains on", start_new_session=True, env={"TMPDIR": str(temporary)}
    )
    sockets = private_sockets(descriptors(trainer.pid))
    if number == signal.SIGKILL:
        os.kill(workers[0], signal.SIGSTOP)
    os.killpg(trainer.pid, number) if group else trainer.signal(number)
    assert trainer.wait(GONE_S) == -number
    wait_until(lambda: gone(workers), GONE_S, "its workers are gone")
    unix = Path("/proc/net/unix").read_text().splitlines()[1:]
    assert not sockets & {line.split()[-1] for line in unix}
    assert number == signal.SIGKILL or list(temporary.iterdir()) == []
    if number == signal.SIGINT:
        assert trainer.err.count("Traceback") == 1, trainer.err
        assert trainer.err.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.slow
def test_closing_takes_two_seconds_at_most_when_a_worker_hangs(videos: Videos) -> None:
    with Client(workers=2) as client:
        client.wait_for_workers(2, timeout_s=START_S)
        list(client.stream(videos.catalog, CLIP, 4))
        workers = children_of(os.getpid())
        os.kill(workers[0], signal.SIGSTOP)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < GONE_S
    assert gone(workers)


# Workers that dialled in


@pytest.mark.slow
def test_a_dialled_in_worker_waits_for_the_next_trainer_at_the_same_address(
    videos: Videos, programs: Programs
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    worker = programs.worker(endpoint, videos.root)
    for how in ("is killed", "closes", "is left open"):
        first, _ = start(programs, videos, how, endpoint)
        if how == "is killed":
            first.signal(signal.SIGKILL)
        first.wait(GONE_S)
    with Client(workers=0, listen=endpoint) as client:
        client.wait_for_workers(1, timeout_s=START_S)
        stream = client.stream(videos.catalog, CLIP, 4, shuffle=True)
        assert digest(stream) == digest(decode_serially(videos.catalog, CLIP, 4, shuffle=True))
    assert worker.process.poll() is None
    assert worker.err.count("serving trainer") == 4
    assert "Traceback" not in worker.err


# Consumers


@pytest.mark.parametrize("workers", [0, 1])
def test_closing_ends_a_consumer_that_waits(workers: int, videos: Videos) -> None:
    caught: list[BaseException] = []

    def consume(client: Client) -> None:
        stream = client.stream(videos.catalog, CLIP, 4)
        try:
            for _ in stream.batches(epochs=10**6):
                pass
        except ClosedError as error:
            caught.append(error.with_traceback(None))

    with (
        Client(workers=workers, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as idle,  # a worker that gets leases and answers none
    ):
        say(idle, hello())
        assert isinstance(answer(idle), Welcome)
        consumer = threading.Thread(target=consume, args=(client,))
        consumer.start()
        assert isinstance(answer(idle), Lease), "somebody reads"
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < GONE_S
        consumer.join(GONE_S)
        assert not consumer.is_alive()
    assert [type(error) for error in caught] == [ClosedError]


# TensorFlow


PRESSED = """
    import os, random, signal, sys, threading, time

    import tensorflow as tf
    from videoload import Catalog, Client, ClipSpec

    draw = random.Random(1)
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
    model = tf.keras.Sequential([
        tf.keras.layers.GlobalAveragePooling3D(), tf.keras.layers.Dense(3),
    ])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with Client(workers=2, stall_s=60) as client:
        client.wait_for_workers(2)
        stream = client.stream(Catalog.from_folder(sys.argv[1]), clip, 4, shuffle=True)

        def signal_workers(number):
            for worker in client.workers:
                os.kill(worker.pid, number)

        def press(frozen):
            time.sleep(draw.uniform(0, 0.4))
            if frozen:
                signal_workers(signal.SIGSTOP)
                time.sleep(0.2)
            while True:  # Keras or TensorFlow may lose one.
                pressed.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
                if ended.wait(3):
                    break

        try:
            signal.raise_signal(signal.SIGINT)  # in a cell of a notebook, say
        except KeyboardInterrupt:
            pass
        model.fit(stream.dataset(epochs=1), steps_per_epoch=2, verbose=0)
        print("fitted", flush=True)
        for number in range(int(sys.argv[2])):
            pressed, ended, how = [], threading.Event(), None
            dataset = stream.dataset(epochs=10**4)
            steps = draw.choice([3, 9, 99])
            presses = threading.Thread(target=press, args=[number % 3 == 1])
            try:
                presses.start()
                model.fit(dataset, verbose=0, epochs=10**4, steps_per_epoch=steps)
            except BaseException as error:
                # A finalizer loses the KeyboardInterrupt that strikes it: the stream says it then.
                how = "said" if "Ctrl-C" in str(error) else type(error).__name__
            print(how, len(pressed), time.monotonic() - pressed[-1], flush=True)
            while presses.is_alive():
                try:
                    ended.set()
                    presses.join()
                except KeyboardInterrupt:  # the one that was pressed just then
                    pass
            signal_workers(signal.SIGCONT)
"""


@pytest.mark.slow
@needs_tensorflow
def test_ctrl_c_ends_a_fit_at_any_moment_and_an_earlier_one_does_not_count(
    videos: Videos, programs: Programs
) -> None:
    # In each third case the workers are frozen, so that the training waits for a batch.
    presses = either(6, 60)
    trainer = programs.script(
        PRESSED, str(videos.root), str(presses), imported="tensorflow",
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )  # fmt: skip
    assert trainer.wait(200 * SECOND) == 0, trainer.err
    first, *told = trainer.out.splitlines()
    assert first == "fitted"
    ended = [line.split() for line in told]
    assert len(ended) == presses, trainer.err
    assert {how for how, *_ in ended} <= {"KeyboardInterrupt", "RuntimeError", "said"}, trainer.err
    assert max(int(pressed) for _, pressed, _ in ended) <= 2
    took = sorted(float(seconds) for *_, seconds in ended)
    print(f"{presses} presses: p50 {took[presses // 2]:.2f} s, the longest {took[-1]:.2f} s")
    assert took[-1] < GONE_S


# The demo


@pytest.mark.slow
@needs_tensorflow
@pytest.mark.parametrize(
    ("number", "sign"),
    rest_nightly(
        [(signal.SIGINT, "Epoch 1/"), (signal.SIGINT, "Epoch 2/"), (signal.SIGHUP, "Epoch 1/")]
    ),
)
def test_a_signal_ends_the_demo_within_two_seconds_and_nothing_is_left(
    number: int, sign: str, programs: Programs, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    demo = programs.python(
        "-m", "tests.support.small_demo", "--workers", "2", "--epochs", "1000",
        imported="tensorflow", start_new_session=True, env={"TMPDIR": str(temporary)},
    )  # fmt: skip
    demo.wait_for(sign, 60 * SECOND)
    assert list(temporary.iterdir())
    children = children_of(demo.pid)
    began = time.monotonic()
    os.killpg(demo.pid, number)
    assert demo.wait(GONE_S) == 128 + number
    print(f"{time.monotonic() - began:.2f} s")
    assert "stopping" in demo.err
    assert "Traceback" not in demo.err
    assert list(temporary.iterdir()) == []
    wait_until(lambda: gone(children), GONE_S, "its workers are gone")
