"""A training that was killed continues as if nothing had happened: resume is one integer."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.needs import needs_tensorflow
from tests.support.programs import Program, Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until

pytestmark = [pytest.mark.slow, needs_tensorflow]

EVERY = 4  # batches between two saves
EPOCHS = 4
KILLED_AFTER = 10  # batches: in mid-epoch, and two batches after a save

# The callback, with Keras's own loop.
FIT = """
        class Tell(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                self.model.reset_metrics()  # the loss of this batch, not of all so far

            def on_train_batch_end(self, batch, logs=None):
                tell(position.batches - 1, logs["loss"])

        position = vl.keras.Position("run", stream, every=4)
        model = position.load_model() if position.batches else build_model()
        for part in position.remaining(epochs=4):
            model.fit(**part, callbacks=[position, Tell()], verbose=0)
"""

SCRIPT = """
    import os
    import signal
    import sys
    from pathlib import Path

    import keras
    import tensorflow as tf
    import videoload as vl

    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(5)

    def build_model():
        model = keras.Sequential([
            keras.Input(clip.shape, dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv3D(4, 3, activation="relu"),
            keras.layers.GlobalAveragePooling3D(),
            keras.layers.Dense(3),
        ])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss)
        return model

    def tell(step, loss):
        print("step", step, float(loss).hex(), flush=True)
        if step + 1 == int(sys.argv[2]):
            signal.pause()  # here it is killed

    catalog = vl.Catalog.from_folder(sys.argv[1])
    clip = vl.ClipSpec(
        frames=4, stride=2, resize=36, size=(32, 32), crop="random", flip=True,
        sampling="random", clips_per_video=3,
    )
    with vl.Client(workers=1) as client:
        stream = client.stream(catalog, clip, batch_size=4, shuffle=True, seed=5)
"""


def curve(run: Program) -> dict[int, str]:
    """The loss of each step that a run has printed so far."""
    lines = [line.split() for line in run.out.splitlines(keepends=True) if line.endswith("\n")]
    return {int(step): loss for _, step, loss in lines}


def test_a_training_killed_in_mid_epoch_has_the_loss_curve_of_an_uninterrupted_one(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    def train(name: str, steps: int = 0) -> Program:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return programs.script(
            SCRIPT + FIT, str(videos.root), str(steps),
            imported="tensorflow", cwd=folder, env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        )  # fmt: skip

    unbroken, victim = train("unbroken"), train("broken", KILLED_AFTER)
    wait_until(
        lambda: len(curve(victim)) >= KILLED_AFTER or victim.process.poll() is not None,
        100 * SECOND, "it trains",
    )  # fmt: skip
    victim.signal(signal.SIGKILL)
    assert victim.wait(30 * SECOND) == -signal.SIGKILL, victim.err
    again = train("broken")
    for run in (unbroken, again):
        assert run.wait(100 * SECOND) == 0, run.err

    whole, begun, rest = curve(unbroken), curve(victim), curve(again)
    steps = range(len(videos.catalog) * 3 // 4 * EPOCHS)
    assert list(whole) == list(steps)
    assert begun == {step: whole[step] for step in steps[:KILLED_AFTER]}
    saved = KILLED_AFTER // EVERY * EVERY
    assert rest == {step: whole[step] for step in steps[saved:]}


WAITING = """
    import signal
    import subprocess
    import sys
    import threading

    import keras
    import videoload as vl

    class Tell(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            print("step", position.batches - 1, flush=True)
            worker.kill()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    catalog = vl.Catalog.from_folder(sys.argv[1])
    clip = vl.ClipSpec(frames=4, size=(32, 32))
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        command = [sys.executable, "-m", "videoload", "worker", "--workers", "1"]
        where = ["--root", sys.argv[1], "--connect", client.endpoints[0]]
        worker = subprocess.Popen([*command, *where])
        stream = client.stream(catalog, clip, batch_size=2)
        layers = [keras.Input(clip.shape, dtype="uint8"), keras.layers.GlobalAveragePooling3D()]
        model = keras.Sequential([*layers, keras.layers.Dense(3)])
        model.compile("sgd", "sparse_categorical_crossentropy")
        position = vl.keras.Position("run", stream, every=10**6, stop=stop)
        if sys.argv[2] == "at once":
            worker.kill()
        for part in position.remaining(epochs=10**6):
            model.fit(**part, callbacks=[position, Tell()], verbose=0)
        print("ended", flush=True)
"""


@pytest.mark.parametrize(
    ("backend", "when"),
    [("tensorflow", "at once"), ("tensorflow", "in an epoch"), ("torch", "in an epoch")],
)
def test_a_training_that_waits_for_a_batch_is_saved_at_sigterm(
    backend: str, when: str, videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    """The main thread waits in ``fit``, for workers that have all ended. On PyTorch, Keras raises
    an error if the first batch does not come; then there is nothing to save."""
    pytest.importorskip(backend)
    trainer = programs.script(
        WAITING, str(videos.root), when, imported=backend, cwd=tmp_path,
        env={"KERAS_BACKEND": backend},
    )  # fmt: skip
    trainer.wait_for("no worker is connected", 60 * SECOND)
    trainer.signal(signal.SIGTERM)
    assert trainer.wait(20 * SECOND) == 0, trainer.err
    assert "Traceback" not in trainer.err
    assert "ran out of data" not in trainer.err
    *steps, last = trainer.out.splitlines()
    assert last == "ended"
    assert (when == "at once") == (not steps)
    if steps:
        assert json.loads((tmp_path / "run/position.json").read_text())["batches"] == len(steps)


LOOP = """
    import signal
    import sys
    import threading

    import videoload as vl

    catalog = vl.Catalog.from_folder(sys.argv[1])
    clip, done = vl.ClipSpec(frames=4, size=(32, 32)), 0
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream = client.stream(catalog, clip, batch_size=2)
        close = threading.Thread(target=client.close)
        signal.signal(signal.SIGTERM, lambda *_: close.start())
        try:
            for clips, labels in stream.batches(start_step=done, epochs=2):
                done += 1
        except vl.ClosedError:
            print("saved", done)
"""


def test_a_loop_that_waits_for_a_batch_ends_at_sigterm(videos: Videos, programs: Programs) -> None:
    page = (Path(__file__).parents[2] / "docs/train/resume.md").read_text()
    for line in ("close = ", "signal.signal("):
        [own] = [each.strip() for each in LOOP.splitlines() if each.strip().startswith(line)]
        assert own in page
    trainer = programs.script(LOOP, str(videos.root))
    trainer.wait_for("no worker is connected", 60 * SECOND)
    trainer.signal(signal.SIGTERM)
    assert trainer.wait(20 * SECOND) == 0, trainer.err
    assert trainer.out == "saved 0\n"
    assert "Traceback" not in trainer.err
