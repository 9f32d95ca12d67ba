"""A model is known again by its weights."""

from typing import Any

import numpy as np
import pytest

from videoload.tools.provenance import weights_digest
from videoload.torch import as_model


def check(made: Any, changed: Any, unbuilt: Any) -> None:
    digest = weights_digest(made)
    assert digest is not None
    assert weights_digest(made) == digest
    assert weights_digest(changed) not in (digest, None)
    assert weights_digest(unbuilt) is None, "its weights are drawn when it is called"


def test_a_keras_model_is_known_by_its_weights(tf: Any) -> None:
    import keras

    def model(*first: Any) -> Any:
        return keras.Sequential([*first, keras.layers.Dense(2, kernel_initializer="ones")])

    made, changed = model(keras.Input((3,))), model(keras.Input((3,)))
    assert weights_digest(made) == weights_digest(changed) == weights_digest(made.predict_on_batch)
    changed.set_weights([*map(np.negative, changed.get_weights())])
    check(made, changed, model())


def test_keras_models_of_equal_weights_differ_by_how_their_layers_are_configured(tf: Any) -> None:
    import keras
    from keras import layers

    def model(first: Any, activation: str | None = None) -> Any:
        last = layers.Dense(2, activation=activation, kernel_initializer="ones")
        return keras.Sequential([keras.Input((3,)), first, last])

    mean = layers.Normalization(mean=np.zeros(3), variance=np.ones(3))
    made = [
        model(layers.Rescaling(1 / 255)), model(layers.Rescaling(1 / 127.5)),
        model(layers.Rescaling(1 / 255), "softmax"), model(layers.Dropout(0.5, seed=1)),
        model(mean), model(layers.Normalization(mean=np.ones(3), variance=np.ones(3))),
    ]  # fmt: skip
    digests = [weights_digest(each) for each in made]
    assert len({*digests} - {None}) == len(made)
    assert weights_digest(model(layers.Rescaling(1 / 255))) == digests[0], "its layers' names count"
    assert weights_digest(model(layers.Dropout(0.5, seed=2))) == digests[3]

    class Own(keras.Model):  # type: ignore[misc]  # it tells nothing of itself
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale, self.last = layers.Rescaling(scale), layers.Dense(2)

        def call(self, clips: Any) -> Any:
            return self.last(self.scale(clips))

    one, other = Own(1.0), Own(2.0)
    for each in (one, other):
        each(np.ones((1, 3)))
        each.set_weights([np.ones((3, 2)), np.zeros(2)])
    assert weights_digest(one) not in (weights_digest(other), None)


def test_methods_of_a_model_are_models() -> None:
    class Net:
        def state_dict(self) -> dict[str, Any]:
            return {"w": np.ones(3)}

        def __call__(self, clips: Any) -> Any:
            return clips

        def scores(self, clips: Any) -> Any:
            return clips

        def embedded(self, clips: Any) -> Any:
            return clips

    net = Net()
    assert weights_digest(net.scores) not in (weights_digest(net.embedded), None)
    assert weights_digest(net.scores) not in (weights_digest(net), None)
    assert weights_digest(net.__call__) == weights_digest(net)


@pytest.mark.xdist_group("torch")
def test_a_pytorch_module_is_known_by_its_weights() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to(torch.bfloat16)
    before = weights_digest(net)
    assert before == weights_digest(net.forward)
    with torch.no_grad():
        net[1].running_mean += 1
    assert weights_digest(net) not in (before, None)
    check(net, torch.nn.Linear(3, 2), torch.nn.LazyLinear(2))
    one, other = (torch.nn.Sequential(net[0], each) for each in (torch.nn.ReLU(), torch.nn.Tanh()))
    assert weights_digest(one) not in (weights_digest(other), None)
    one, other = (as_model(each) for each in (one, other))
    assert weights_digest(one) not in (weights_digest(other), None)


@pytest.mark.parametrize("function", [lambda clips: clips, len, np.mean, "text".upper, 3])
def test_a_function_has_no_weights(function: Any) -> None:
    assert weights_digest(function) is None
