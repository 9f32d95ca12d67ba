"""Clips of any length as tf.data, Keras, PyTorch and a preview have them, in the buckets that a
scan proposes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import videoload as vl
from tests.support.digests import digests
from tests.support.models import arrays
from tests.support.videos import make_avi, make_lengths
from videoload import Catalog, Client, ClipSpec, PerFrame, SpecError, decode_serially

CLIP = ClipSpec("all", max_frames=20, stride=2, resize=16, size=16)
FIT: dict[str, Any] = {"verbose": 0, "shuffle": False}
HOW: dict[str, Any] = {"batch_size": 3, "buckets": (5, 10, 20), "shuffle": True, "seed": 4}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """24 files of two classes, of 3 to 49 frames."""
    root = tmp_path_factory.mktemp("lengths")
    make_lengths(root, range(3, 27), "a/")
    make_lengths(root, range(27, 51), "b/")
    return Catalog.from_folder(root)


def test_a_dataset_has_no_fixed_length_and_the_bytes_of_the_batches(
    tf: Any, client: Client, catalog: Catalog
) -> None:
    numbers = [np.arange(frames) for frames in [*range(3, 27), *range(27, 51)]]
    labelled = catalog.with_targets({"number": PerFrame(numbers)})
    stream = client.stream(labelled, CLIP, **HOW)
    clips, labels, info = stream.dataset(info=True).element_spec
    assert clips.shape.as_list() == [3, None, 16, 16, 3]
    assert labels["number"].shape.as_list() == [3, None]
    for name, kind in info.items():
        own = {"frames": [3, None], "times": [3, None], "mask": [3, None], "affine": [3, 2, 3]}
        assert kind.shape.as_list() == own.get(name, [3]), name
    wanted = list(decode_serially(labelled, CLIP, info=True, epochs=2, **HOW))
    got = list(stream.dataset(epochs=2, info=True))
    assert len(got) == len(wanted)
    for (clips, labels, info), (pixels, rows, told) in zip(got, wanted, strict=True):
        assert np.array_equal(clips, pixels)
        assert np.array_equal(labels["number"], rows["number"])
        for name in ("frames", "times", "lengths", "mask"):
            assert np.array_equal(info[name], getattr(told, name), equal_nan=name == "times")
    rest = client.stream(catalog, CLIP, **{**HOW, "drop_remainder": False}).dataset()
    assert rest.element_spec[0].shape.as_list() == [None, None, 16, 16, 3]
    how = {**HOW, "batch_size": None, "batch_frames": 40}
    filled = client.stream(catalog, CLIP, **how)
    assert filled.dataset().element_spec[1].shape.as_list() == [None]
    assert digests(arrays(filled.dataset())) == digests(decode_serially(catalog, CLIP, **how))
    one = client.stream(catalog, CLIP, **{**HOW, "buckets": None}).dataset()
    assert one.element_spec[0].shape.as_list() == [3, 20, 16, 16, 3]


def test_batches_of_several_sizes_have_none_of_them_in_a_dataset_and_each_in_a_preview(
    tf: Any, client: Client, tmp_path: Path
) -> None:
    for number, size in enumerate([(24, 48), (48, 24), (32, 32)] * 4):
        make_avi(tmp_path / f"{number}.avi", frames=9 + number, size=size)
    videos = Catalog.from_folder(tmp_path, label=None)
    clip = ClipSpec("all", max_frames=16, short="cut", size=[(16, 32), (32, 16), (24, 24)])
    how: dict[str, Any] = {"batch_frames": 64, "buckets": (9, 16), "drop_remainder": False}
    stream = client.stream(videos, clip, **how)
    assert stream.dataset().element_spec[0].shape.as_list() == [None, None, None, None, 3]
    wanted = list(decode_serially(videos, clip, **how))
    assert {clips.shape[2:4] for clips, _ in wanted} == {(16, 32), (32, 16), (24, 24)}
    assert digests(arrays(stream.dataset())) == digests(wanted)
    for read in (stream.sequence, lambda: vl.predict(len, client, videos, clip, 1)):
        with pytest.raises(SpecError):
            read()
    stream.preview(tmp_path / "seen.png", batches=len(stream))
    assert (tmp_path / "seen.png").stat().st_size


def masked_model(tf: Any) -> tuple[Any, Any]:
    """A model that takes a mask, and one of the mean of the frames that its layers see."""
    keras, layers = tf.keras, tf.keras.layers
    clips, mask = keras.Input((None, 16, 16, 3), dtype="uint8"), keras.Input((None,), dtype="bool")
    x = layers.Rescaling(1 / 255)(clips)
    x = layers.TimeDistributed(layers.GlobalAveragePooling2D())(x)
    model = keras.Model([clips, mask], layers.Dense(2)(layers.GRU(4)(x, mask=mask)))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, keras.Model([clips, mask], layers.GlobalAveragePooling1D()(x, mask=mask))


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
def test_a_model_with_a_mask_trains_on_all_lengths_and_resumes(
    tf: Any, client: Client, catalog: Catalog, tmp_path: Path
) -> None:
    stream = client.stream(catalog, CLIP, **{**HOW, "drop_remainder": False})
    model, mean = masked_model(tf)
    dataset = stream.dataset(info=True).map(vl.keras.with_mask)
    history = model.fit(dataset, epochs=2, **FIT)
    assert np.isfinite(history.history["loss"]).all()
    assert stream.state_dict()["step"] == 2 * len(stream)
    for (clips, mask), _ in dataset:
        lengths = mask.numpy().sum(1)
        own = [
            clip[:length].mean((0, 1, 2))
            for clip, length in zip(clips.numpy(), lengths, strict=True)
        ]
        np.testing.assert_allclose(mean((clips, mask)), np.array(own) / 255, atol=1e-5)
    for epochs in (1, 2):
        position = vl.keras.Position(tmp_path, stream)
        model = position.load_model() if position.batches else model
        for part in position.remaining(epochs, info=True):
            part["x"] = part["x"].map(vl.keras.with_mask)
            model.fit(**part, callbacks=[position], verbose=0)
        assert position.batches == epochs * len(stream)


def test_a_sequence_of_several_shapes_is_refused(tf: Any, client: Client, catalog: Catalog) -> None:
    with pytest.raises(SpecError, match=r"dataset\(\)"):
        client.stream(catalog, CLIP, **HOW).sequence()
    sequence = client.stream(catalog, CLIP, **{**HOW, "buckets": None}).sequence()
    assert sequence[0][0].shape == (3, 20, 16, 16, 3)
