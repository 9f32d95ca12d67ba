"""Runs a training script: ``python -m tests.support.watched_trainer SCRIPT STOP [BACKEND]``.

With PyTorch, it prints the digest of the clips of each training step, as they come to the model,
and the process dies at step number STOP; or, with "step STOP", after the optimizer's step of this
number. With a BACKEND of Keras, TensorFlow is absent, and it dies
when saving number STOP begins; a training that ends is compared, by its weights, with a loop over
`decode_serially`.
"""

import hashlib
import itertools
import os
import runpy
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

import videoload as vl


def told(clips: Any) -> str:
    return hashlib.sha256(clips.tobytes()).hexdigest()


def watch_torch(stop: int) -> None:
    import torch

    steps = itertools.count(1)

    def note(module: Any, inputs: Any) -> None:
        if module.training and isinstance(module, torch.nn.Conv3d):
            made = (inputs[0].cpu() * 255).round().permute(0, 2, 3, 4, 1).numpy()
            print("trained on", told(made.astype(np.uint8)), flush=True)
            if next(steps) == stop:
                os._exit(9)

    torch.nn.modules.module.register_module_forward_pre_hook(note)


def watch_optimizer(stop: int) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = itertools.count(1)

    def note(*_: Any) -> None:
        if next(steps) == stop:
            os._exit(9)

    register_optimizer_step_post_hook(note)


class WithoutTensorFlow(MetaPathFinder, Loader):
    """No import of TensorFlow succeeds, as where it is not installed."""

    def find_spec(self, name: str, *others: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith("tensorflow") else None

    def exec_module(self, module: ModuleType) -> None:
        raise ModuleNotFoundError(f"No module named {module.__name__!r}")


def watch_keras(stop: int, backend: str) -> None:
    os.environ["KERAS_BACKEND"] = backend
    sys.meta_path.insert(0, WithoutTensorFlow())
    import keras

    savings, save = itertools.count(1), keras.Model.save

    def noted(*arguments: Any, **options: Any) -> None:
        if next(savings) == stop:
            os._exit(9)
        save(*arguments, **options)

    keras.Model.save = noted


def far(script: dict[str, Any]) -> float:
    """How far the weights of a script's model are from those of a loop."""
    model, how = script["build_model"](), script["how"]
    for clips, labels in vl.decode_serially(script["catalog"], script["clip"], **how, epochs=3):
        model.train_on_batch(clips, labels)
    pairs = zip(model.get_weights(), script["model"].get_weights(), strict=True)
    assert any(weights.any() for weights in model.get_weights())
    return max(float(np.abs(one - other).max()) for one, other in pairs)


if __name__ == "__main__":
    script, stop, *backend = sys.argv[1:]
    sys.path.insert(0, "")
    watch = watch_optimizer if stop.startswith("step ") else watch_torch
    (watch_keras if backend else watch)(int(stop.removeprefix("step ")), *backend)
    ended = runpy.run_path(script, run_name="__main__")
    if backend:
        assert [ended["keras"].config.backend()] == backend
        print("weights differ by at most", far(ended))
