"""A stream as a keras.utils.PyDataset: any batch by its number, each epoch's batches in
any order."""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.digests import digests
from tests.support.models import recorder
from tests.support.processes import arena_maps, descriptors, ends_well
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos, make_levels
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, ClosedError, SpecError, Stream, decode_serially

pytestmark = pytest.mark.usefixtures("tf")

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
HOW: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 3}
FIT: dict[str, Any] = {"verbose": 0}


@pytest.fixture
def of_fit(tf: Any) -> Iterator[Client]:
    """A client that is closed with the test."""
    with Client(workers=2) as made:
        yield made


def make(client: Client, videos: Videos) -> Stream:
    return client.stream(videos.catalog, CLIP, **HOW)


def decoded(client: Client) -> int:
    """How many clips its workers have decoded, when they have no lease left of earlier streams."""
    wait_until(lambda: all(each.state == "idle" for each in client.workers), 30 * SECOND)
    return sum(worker.clips for worker in client.workers)


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    """The serial batches of four epochs."""
    return digests(decode_serially(videos.catalog, CLIP, **HOW, epochs=4))


def test_a_batch_by_number_is_that_step_of_the_stream(
    client: Client, videos: Videos, serial: list[str]
) -> None:
    stream = make(client, videos)
    sequence = stream.sequence()
    size = len(sequence)
    assert size == len(stream) > 3
    assert digests(sequence[i] for i in range(size)) == serial[:size]
    order = [*range(size), 0, 1, *range(size)]
    random.Random(5).shuffle(order)
    for i in order:
        assert digests([sequence[i]]) == [serial[i]]
        assert digests([sequence[i - size]]) == [serial[i]]
    for i in (size, -size - 1):
        with pytest.raises(IndexError):
            sequence[i]


def test_a_forked_process_gets_no_batch_by_number(client: Client, videos: Videos) -> None:
    sequence = make(client, videos).sequence()
    _ = sequence[0]

    def is_refused(at: int) -> bool:
        with suppress(ClosedError):
            _ = sequence[at]
            return False
        return True

    with sequence._lock:  # as another thread of Keras may have it
        assert ends_well(lambda: is_refused(1))
        assert ends_well(lambda: is_refused(5))
    assert len([sequence[i] for i in range(1, len(sequence))]) == len(sequence) - 1


def test_in_order_each_clip_is_decoded_once(
    serial: list[str], client: Client, videos: Videos
) -> None:
    stream = make(client, videos)
    sequence, before = stream.sequence(), decoded(client)
    seen = []
    for _ in range(4):
        seen += digests(sequence[i] for i in range(len(sequence)))
        sequence.on_epoch_end()
    assert seen == serial
    ahead = 8 + 2  # slots, and leases for the next batches
    batches = (decoded(client) - before) / HOW["batch_size"]
    assert batches <= len(serial) + ahead


def test_an_epoch_ends_when_all_its_batches_were_asked_for(
    client: Client, videos: Videos, serial: list[str]
) -> None:
    stream = make(client, videos)
    sequence, size = stream.sequence(), len(stream)
    for i in (0, 1, 0):
        assert digests([sequence[i]]) == [serial[i]]
    sequence.on_epoch_end()
    assert sequence.epoch == 0, "it was left early"
    for i in reversed(range(size)):
        assert digests([sequence[i]]) == [serial[i]]
    sequence.on_epoch_end()
    sequence.on_epoch_end()
    assert sequence.epoch == 1
    assert digests([sequence[2]]) == [serial[size + 2]]


@pytest.mark.parametrize("shuffle", rest_nightly([False, True]))
def test_fit_trains_on_each_batch_of_each_epoch_once(
    shuffle: bool, of_fit: Client, videos: Videos, serial: list[str], tf: Any
) -> None:
    stream = of_fit.stream(videos.catalog, CLIP, slots=4, **HOW)  # few: TensorFlow holds some
    model = recorder(tf)
    model.fit(stream.sequence(), epochs=3, shuffle=shuffle, **FIT)
    size = len(stream)
    for epoch in range(3):
        steps = slice(epoch * size, (epoch + 1) * size)
        seen, expected = model.seen[steps], serial[steps]
        assert seen == expected or (shuffle and sorted(seen) == sorted(expected))
    assert len(model.seen) == 3 * size


@pytest.mark.parametrize("way", rest_nightly(["fit", "evaluate", "predict"]))
def test_a_stream_ends_when_its_fit_has_ended_and_nobody_holds_it(
    way: str, client: Client, tf: Any, tmp_path: Path
) -> None:
    catalog = make_levels(tmp_path, {f"{number}.avi": number for number in range(8)})
    clip = ClipSpec(1, size=(2, 2), pixels="gray")
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def run() -> None:
        sequence = client.stream(catalog, clip, 2).sequence()
        getattr(model, way)(sequence, **FIT)
        assert arena_maps()

    for _ in range(either(2, 5)):
        run()
        wait_until(lambda: not arena_maps(), 30 * SECOND)
        assert not [where for where in descriptors().values() if "memfd:videoload (" in where]


def test_the_error_that_ends_the_stream_is_raised(client: Client, videos: Videos) -> None:
    for options in ({"on_error": "skip"}, {"ordered": False}):
        other = client.stream(videos.catalog, CLIP, 3, **options)
        with pytest.raises(SpecError, match="ordered=True"):
            other.sequence()
    with Client(workers=1) as closed:
        sequence = make(closed, videos).sequence()
        sequence[0]
    for i in (4, 0):
        with pytest.raises(ClosedError):
            sequence[i]


def test_a_layer_turns_yuv420p_into_the_rgb_of_rgb24(tf: Any, videos: Videos) -> None:
    import keras

    from videoload.keras import ToRGB

    clip = ClipSpec(frames=2, size=(32, 40), crop="stretch")
    (planes, _), *_ = decode_serially(videos.catalog, replace(clip, pixels="yuv420p"), 2)
    (rgb, _), *_ = decode_serially(videos.catalog, clip, 2)
    model = keras.Sequential([keras.Input(planes.shape[1:], dtype="uint8"), ToRGB()])
    assert model.output_shape == (None, *rgb.shape[1:])
    again = keras.Sequential.from_config(model.get_config())
    for each in (model, again):
        made = np.asarray(each(planes))
        assert made.dtype == np.uint8
        assert np.abs(made.astype(int) - rgb).max() <= 1
