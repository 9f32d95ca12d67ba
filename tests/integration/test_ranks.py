"""Data-parallel training in two processes: each rank has its own client, its own worker and its
own shard, and TensorFlow keeps them in step."""

from __future__ import annotations

import json

import pytest

from tests.support.needs import needs_tensorflow
from tests.support.ports import free_ports
from tests.support.programs import Programs
from tests.support.videos import Videos
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
"""


def test_ranks_train_in_step_on_disjoint_complete_equally_long_shards(
    videos: Videos, programs: Programs
) -> None:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(RANKS)]}
    ranks = [
        programs.script(
            RANK, str(videos.root), imported="tensorflow",
            env={
                "TF_CONFIG": json.dumps({
                    "cluster": cluster, "task": {"type": "worker", "index": rank},
                }),
                "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "",
            },
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    for program in ranks:
        assert program.wait(150 * SECOND) == 0, program.err
    (steps, first, losses, weights), (_, second, other_losses, other_weights) = (
        json.loads(program.out.partition("saw ")[2]) for program in ranks
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
