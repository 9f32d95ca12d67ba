"""Data-parallel training in two processes: each rank has its own client, its own worker and its
own shard, and TensorFlow keeps them in step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.needs import needs_tensorflow
from tests.support.ports import free_ports
from tests.support.programs import Program, Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, ClipSpec, decode_serially

pytestmark = [pytest.mark.timeout(240 * SECOND), pytest.mark.slow, needs_tensorflow]

RANKS, BATCH, EPOCHS = 2, 2, 2
CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=4)

RANK = """
    import json
    import os
    import sys

    import tensorflow as tf

    # Before anything else that TensorFlow does: it takes up the connection to the other rank.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    import keras
    import videoload as vl

    root, rank = sys.argv[1], json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    clip = vl.ClipSpec(
        frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=4
    )
    seen = []

    keras.utils.set_random_seed(1)
    with vl.Client(workers=1) as client:
        stream = client.stream(
            vl.Catalog.from_folder(root), clip, 2, shuffle=True, seed=3,
            shard=(rank, strategy.num_replicas_in_sync),
        )

        def note(clips, labels):
            seen.append([int(clips.numpy().astype("int64").sum()), *labels.numpy().tolist()])
            return labels

        def mine(context):
            dataset = stream.dataset(epochs=2)

            def look(clips, labels):
                labels = tf.ensure_shape(tf.py_function(note, (clips, labels), tf.int64), (2,))
                return clips, labels

            return dataset.map(look)

        with strategy.scope():
            model = keras.Sequential([
                keras.Input(clip.shape, dtype="uint8"),
                keras.layers.Rescaling(1 / 255),
                keras.layers.GlobalAveragePooling3D(),
                keras.layers.Dense(3),
            ])
            optimizer = keras.optimizers.SGD(0.1)
            optimizer.build(model.trainable_variables)

        def learn(clips, labels):
            with tf.GradientTape() as tape:
                logits = model(clips, training=True)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                )
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        @tf.function
        def step(batch):
            return strategy.reduce("MEAN", strategy.run(learn, batch), axis=None)

        # A loop of our own: the one time it was tried, the fit of Keras 3.15 did not take what a
        # strategy of several processes distributes.
        losses = [
            float(step(batch)) for batch in strategy.distribute_datasets_from_function(mine)
        ]
        weights = [round(float(value), 5) for value in model.get_weights()[0].ravel()]
        print("saw", json.dumps([len(stream), seen, losses, weights]), flush=True)

        # Then they decide together on bad videos.
        @tf.function
        def mean_of_ranks(number):
            return strategy.reduce("MEAN", strategy.run(lambda: number), axis=None)

        catalog, clip = vl.Catalog.from_folder(sys.argv[2]), vl.ClipSpec(frames=2, size=(32, 32))
        stream = client.stream(catalog, clip, 1, shard=(rank, 2), max_bad=1.0)
        for step, _ in enumerate(stream):
            bad = len(stream.quarantine)
            if float(mean_of_ranks(tf.constant(float(bad)))) > 3:
                print("stopped", step, bad, flush=True)
                break
"""


def start_ranks(programs: Programs, *arguments: str) -> list[Program]:
    """Start the script in one process for each rank."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(RANKS)]}
    return [
        programs.script(
            RANK, *arguments, imported="tensorflow",
            env={
                "TF_CONFIG": json.dumps({
                    "cluster": cluster, "task": {"type": "worker", "index": rank},
                }),
                "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "",
            },
        )
        for rank in range(RANKS)
    ]  # fmt: skip


def lines(program: Program, begin: str) -> list[str]:
    """The rest of each line that begins so."""
    printed = program.out.splitlines()
    return [line.removeprefix(begin) for line in printed if line.startswith(begin)]


def test_ranks_train_in_step_on_disjoint_complete_equally_long_shards_and_stop_together(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    for number in range(30):
        name = f"x/{number:02}.avi"
        if number % 2 and number > 6:  # all of them in the second rank's share
            (damaged / name).write_text("not a video")
        else:
            make_avi(damaged / name, frames=4, size=(32, 32), seed=number)
    ranks = start_ranks(programs, str(videos.root), str(damaged))
    for program in ranks:
        assert program.wait(150 * SECOND) == 0, program.err
    (steps, first, losses, weights), (_, second, other_losses, other_weights) = (
        json.loads(told) for program in ranks for told in lines(program, "saw ")
    )
    assert len(first) == len(second) == len(losses) == steps * EPOCHS
    assert (losses, weights) == (other_losses, other_weights), "they train in step"
    for rank, seen in enumerate((first, second)):
        expected = [
            [int(clips.astype("int64").sum()), *labels.tolist()]
            for clips, labels in decode_serially(
                Catalog.from_folder(videos.root), CLIP, BATCH, shuffle=True, seed=3,
                shard=(rank, RANKS), epochs=EPOCHS,
            )
        ]  # fmt: skip
        assert seen == expected
    whole = [
        {
            (int(video), *frames.tolist())
            for _, _, info in decode_serially(
                videos.catalog, CLIP, BATCH, shuffle=True, seed=3, shard=shard, info=True
            )
            for video, frames in zip(info.video, info.frames, strict=True)
        }
        for shard in ((0, 2), (1, 2), (0, 1))
    ]
    assert whole[0] | whole[1] == whole[2]
    (step, bad), (other_step, other_bad) = (
        map(int, told.split()) for program in ranks for told in lines(program, "stopped ")
    )
    assert step == other_step
    assert bad < 3 < other_bad, "by itself, one of them would have continued"
