"""A model is known again by its weights."""

from typing import Any

import numpy as np
import pytest

from videoload.predictions.marks import weights_digest


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


@pytest.mark.parametrize("function", [lambda clips: clips, len, np.mean, "text".upper, 3])
def test_a_function_has_no_weights(function: Any) -> None:
    assert weights_digest(function) is None
