"""Batches as PyTorch's models want them, and a loop that resumes."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import videoload as vl
from tests.support.needs import needs_torch
from tests.support.processes import ends_well
from tests.support.videos import Videos
from videoload import Client, ClipSpec, SpecError, decode_serially
from videoload.tools.provenance import weights_digest

pytestmark = [pytest.mark.slow, needs_torch]

CLIP = ClipSpec(frames=4, size=(32, 40), crop="stretch", sampling="random", clips_per_video=3)


def test_clips_are_normalised_and_channels_come_first(client: Client, videos: Videos) -> None:
    import torch

    stream = client.stream(videos.catalog, CLIP, 2, shuffle=True)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    made = [
        (clips.clone(), labels.clone())
        for clips, labels in vl.torch.batches(stream, mean=mean, std=std)
    ]
    reference = list(decode_serially(videos.catalog, CLIP, 2, shuffle=True))
    assert len(made) == len(reference) == len(stream)
    for (clips, labels), (pixels, classes) in zip(made, reference, strict=True):
        assert clips.dtype == torch.float32
        wanted = ((pixels / 255 - mean) / std).astype(np.float32)
        np.testing.assert_allclose(clips.numpy(), wanted.transpose(0, 4, 1, 2, 3), atol=1e-5)
        assert labels.tolist() == classes.tolist()
    for wrong in (
        {"layout": "NCHW"}, {"mean": (0.5,)}, {"mean": 0.5}, {"std": (0, 1, 1)},
        {"mean": (123.7, 116.3, 103.5)}, {"std": (0.2, 58.4, 0.2)},
        {"dtype": torch.uint8, "std": std}, {"mean": [[0.5] * 3]}, {"std": [[0.2]] * 3},
        {"mean": (0.5, None, 0.5)}, {"mean": (float("nan"),) * 3}, {"std": "0.2"},
    ):  # fmt: skip
        with pytest.raises(SpecError):
            vl.torch.batches(stream, **wrong)


def test_each_part_of_a_sample_is_finished(client: Client, videos: Videos) -> None:
    import torch

    each = videos.catalog
    catalog = vl.Catalog.side_by_side(near=each, far=each, grey=each)
    lead = ClipSpec(frames=4, size=(32, 40), crop="stretch")
    spec = {
        "near": lead,
        "far": replace(lead, pixels="yuv420p"),
        "grey": replace(lead, pixels="gray"),
    }
    mean: dict[str, Any] = {"near": (0.4, 0.5, 0.6), "grey": (0.5,), "far": None}
    stream = client.stream(catalog, spec, 2)
    made = vl.torch.batches(stream, layout="BTCHW", dtype=torch.float16, mean=mean)
    for (clips, _), (wanted, _) in zip(made, decode_serially(catalog, spec, 2), strict=True):
        assert {part.dtype for part in clips.values()} == {torch.float16}
        for name, part in wanted.items():
            pixels = wanted["near"] if name == "far" else part  # MJPEG differs by some levels
            expected = (pixels / 255 - (mean[name] or 0)).transpose(0, 1, 4, 2, 3)
            levels = 4 if name == "far" else 0.5
            np.testing.assert_allclose(clips[name].numpy(), expected, atol=levels / 255)
    for wrong, word in (
        ({"mean": {**mean, "left": (0.5,)}}, "left"), ({"mean": (0.5,)}, "mean"),
        ({"std": {"near": (1, 1, 1), "far": None, "grey": (1, 1, 1)}}, "std"),
        ({"mean": {"near": (0.5,) * 3, "far": None}}, "grey"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=word):
            vl.torch.batches(stream, **cast(Any, wrong))


def test_a_log_of_digests_is_that_of_the_reference(client: Client, videos: Videos) -> None:
    how: dict[str, Any] = {"batch_size": 2, "shuffle": True}
    stream = client.stream(videos.catalog, CLIP, **how)
    reference = decode_serially(videos.catalog, CLIP, **how, info=True)
    digests = [info.digest for *_, info in reference]
    assert all(digests)
    assert [info.digest for *_, info in vl.torch.batches(stream, info=True)] == digests


def test_what_is_no_loop_over_batches_says_what_to_give(client: Client, videos: Videos) -> None:
    import torch

    stream = client.stream(videos.catalog, CLIP, 2)
    for wrong in (videos.catalog, None):
        with pytest.raises(SpecError, match=r"client\.stream"):
            vl.torch.batches(cast(Any, wrong))
    batches = vl.torch.batches(stream)
    with pytest.raises(SpecError, match=r"next\(iter"):
        next(batches)
    with pytest.raises(SpecError, match="DataLoader"):
        next(iter(torch.utils.data.DataLoader(cast(Any, batches))))
    for state in ({"step": 3}, 3):
        with pytest.raises(vl.VideoloadError, match="state_dict"):
            batches.load_state_dict(cast(Any, state))


def test_a_module_is_evaluated_by_the_numbers_that_it_was_trained_by(
    client: Client, videos: Videos
) -> None:
    import torch

    net = torch.nn.Sequential(
        torch.nn.Conv3d(3, 4, 3), torch.nn.BatchNorm3d(4), torch.nn.AdaptiveAvgPool3d(1),
        torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(4, len(videos.catalog.classes)),
    )  # fmt: skip
    numbers: dict[str, Any] = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
    spec = replace(CLIP, sampling="center", clips_per_video=1)
    model = vl.torch.as_model(net, **numbers)
    found = vl.evaluate(model, client, videos.catalog, spec, batch_size=2)
    assert net.training
    net.eval()
    stream = client.stream(videos.catalog, spec, 2)
    with torch.inference_mode():
        scores = [net(clips).numpy() for clips, _ in vl.torch.batches(stream, **numbers)]
    np.testing.assert_allclose(found.scores, np.concatenate(scores), atol=1e-5)
    other = vl.torch.as_model(net, mean=(0.4, 0.5, 0.6))
    assert weights_digest(model) not in (weights_digest(other), None)
    # Hugging Face's models return such outputs.
    net.register_forward_hook(lambda module, given, made: SimpleNamespace(logits=made))
    named = vl.evaluate(model, client, videos.catalog, spec, batch_size=2)
    np.testing.assert_array_equal(named.scores, found.scores)
    with pytest.raises(SpecError, match=r"vl\.torch\.as_model"):
        vl.evaluate(net, client, videos.catalog, spec)
    with pytest.raises(SpecError):
        vl.torch.as_model(cast(Any, net.forward))


def test_text_comes_as_lists(client: Client, videos: Videos) -> None:
    captions = [f"a film, {path}" for path in videos.catalog.paths]
    catalog = videos.catalog.with_targets({"caption": captions, "n": np.arange(len(captions))})
    for _, targets in vl.torch.batches(client.stream(catalog, CLIP, 2)):
        assert targets["caption"] == [captions[n] for n in targets["n"].tolist()]


def test_a_crop_of_yuv420p_lies_where_the_matrices_say(videos: Videos) -> None:
    import torch

    odd = ClipSpec(frames=2, resize=50, size=48)  # 66x50: 9 and 1 pixels are left out
    one, _, info = cast(Any, next(decode_serially(videos.catalog, odd, 1, info=True)))
    planes = replace(odd, pixels="yuv420p")
    other, _, beside = cast(Any, next(decode_serially(videos.catalog, planes, 1, info=True)))
    x, y = (beside.affine - info.affine)[0, :, 2].round().astype(int)
    assert (x, y) == (1, 1)
    same = vl.torch.to_rgb(torch.from_numpy(other.copy())).numpy()[..., y:, x:, :]
    assert np.abs(same.astype(int) - one[..., :-y, :-x, :]).max() <= 1


def test_batches_are_a_loader_with_a_length_and_an_epoch_for_each_loop(
    client: Client, videos: Videos
) -> None:
    stream = client.stream(videos.catalog, CLIP, 2, shuffle=True)
    loader, size = vl.torch.batches(stream, info=True), len(stream)
    assert len(loader) == size > 3
    seen = [info.step for limit in (3, 2, size, size) for *_, info in islice(loader, limit)]
    assert seen == [0, 1, 2, *range(size, size + 2), *range(size, 3 * size)]
    state = loader.state_dict()
    assert state == stream.state_dict()
    assert state["step"] == 3 * size
    loader.load_state_dict({**state, "step": 1})
    assert [info.step for *_, info in loader] == [*range(1, size)]


def test_a_forked_process_gets_no_tensor_and_a_dataloader_with_processes_says_so(
    client: Client, videos: Videos
) -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = vl.torch.batches(client.stream(videos.catalog, CLIP, 2))
    batches = iter(loader)
    next(batches)

    def is_refused() -> bool:
        with suppress(vl.ClosedError):
            next(batches)
            return False
        return True

    assert ends_well(is_refused)

    class Set(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[Any]:
            return iter(loader)

    rest = len(list(batches))
    assert len(list(data.DataLoader(Set(), batch_size=None))) == rest + 1
    forking = data.DataLoader(Set(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(vl.ClosedError):
        next(iter(forking))


def test_a_stream_follows_the_protocol_of_torchdata(client: Client, videos: Videos) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader.stateful")
    assert isinstance(client.stream(videos.catalog, CLIP, 2), stateful.Stateful)
