"""The provenance of a row's results. A later run may have another model, or another file under the
same name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.msgpack import encode
from xxhash import xxh3_64, xxh3_64_hexdigest

from videoload import Catalog, Client, ClipSpec, Identify
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.catalog.joining import whole_files
from videoload.clips.sample_spec import one_clip
from videoload.errors import VideoError
from videoload.storage.paths import pieces_of
from videoload.tools.journal import Provenance

_CALLS = ("predict_on_batch", "forward", "__call__")  # methods that are what a model is called by


def provenances_of(
    client: Client | None,
    catalog: Catalog,
    spec: ClipSpec,
    names: Sequence[str],
    model: str | None,
) -> dict[str, Provenance]:
    """Return the provenance of each row, by its name. Without a client, no results are kept."""
    if client is None:
        return dict.fromkeys(names, Provenance(None))
    found, row_of, files = {}, rows_for_workers(catalog, one_clip(spec)), dict[str, int]()
    if catalog.root is not None:
        rows = whole_files(catalog, catalog.paths)
        for row, each in client.run(Identify(), rows):
            if not isinstance(each, VideoError):
                files[rows.paths[row]] = each.value
    for row, (name, path) in enumerate(zip(names, catalog.paths, strict=True)):
        told = row_of(row)
        of = told.boxes + (b"" if told.steps is None else encode(told.steps))
        if of or len(pieces_of(path)) > 1:
            of += path.encode("utf-8", "surrogateescape")
        found[name] = Provenance(model, files.get(path), xxh3_64_hexdigest(of) if of else "")
    return found


def weights_digest(model: Any) -> str | None:
    """Return a hash of a model of Keras or PyTorch: of its weights, of how its layers are
    configured, and of the method that is called. None if it has no weights, or none yet."""
    owner = getattr(model, "__self__", model)  # of a method
    method = "" if owner is model else getattr(model, "__name__", type(model).__name__)
    method = "" if method in _CALLS else method
    try:
        if hasattr(owner, "get_weights"):
            weights = [*enumerate(owner.get_weights())] if getattr(owner, "built", True) else []
            layers = json.dumps(_configuration(owner))
        else:
            weights = [*owner.state_dict().items()]
            layers = repr(owner) if hasattr(owner, "named_modules") else ""
        digest = xxh3_64(json.dumps([type(owner).__qualname__, method, layers]).encode())
        for name, value in weights:
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(_bytes(value))
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
    return digest.hexdigest() if weights else None


def _configuration(model: Any) -> list[Any]:
    """Return how the layers of a Keras model are configured and joined. Their names count up
    within a process, so each stands for its place among the layers."""
    layers = [*model._flatten_layers()] if hasattr(model, "_flatten_layers") else [model]
    places = {getattr(layer, "name", None): f"layer {at}" for at, layer in enumerate(layers)}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            names = sorted(value.keys() - {"seed"}, key=str)  # it may be drawn
            return {str(name): plain(value[name]) for name in names}
        if isinstance(value, list | tuple):
            return [*map(plain, value)]
        if isinstance(value, str):
            return places.get(value, value)
        if hasattr(value, "tolist"):  # an array, or a number of one
            return plain(value.tolist())
        is_plain = value is None or isinstance(value, int | float)
        return value if is_plain else getattr(value, "__qualname__", type(value).__qualname__)

    found = []
    for layer in layers:
        config = {}
        with suppress(NotImplementedError):  # a class of the user's that has no config
            config = layer.get_config()
        found.append([type(layer).__qualname__, plain(config)])
    return found


def _bytes(value: Any) -> bytes:
    """Return the bytes of an array or a tensor. Raises ValueError, RuntimeError."""
    if hasattr(value, "detach"):
        import torch

        # NumPy does not have all types of PyTorch.
        value = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    found: bytes = value.tobytes()
    return found
