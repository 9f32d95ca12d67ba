"""Receipts record the batches of a training, and `videoload replay` makes them again."""

from __future__ import annotations

import json
import shutil
import sys
import weakref
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec, VideoloadError, decode_serially, mix
from videoload.commands.cli_batches import import_from_here
from videoload.trainer import receipts

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", flip=True)


def test_a_stream_and_a_serial_decode_have_the_same_digests(
    videos: Videos, client: Client, tmp_path: Path
) -> None:
    train, _ = videos.catalog.split(0.7)
    stream = client.stream(train, CLIP, 2, shuffle=True, seed=3)
    stream.keep_receipts(tmp_path / "runs/kept.jsonl")
    told = {info.step: info.digest for *_, info in stream.batches(epochs=3, info=True)}
    serial = decode_serially(train, CLIP, 2, shuffle=True, seed=3, epochs=3, info=True)
    assert {info.step: info.digest for *_, info in serial} == told
    assert len(set(told.values())) == 3 * len(stream), "no batch is like another"
    found = receipts.read(tmp_path / "runs/kept.jsonl", videos.root)
    assert found.digests == told
    with pytest.raises(VideoloadError, match=r"the folder .*none.* cannot be opened"):
        receipts.read(tmp_path / "runs/kept.jsonl", tmp_path / "none")
    assert (found.spec, found.options) == (stream.clip, stream.options)
    assert list(found.catalog) == list(train)
    assert found.catalog.classes == train.classes
    with (tmp_path / "runs/kept.jsonl").open("a") as out:
        out.write('{"step": 3, "dig')  # killed in the middle, and resumed
    again = client.stream(train, CLIP, 2, shuffle=True, seed=3)
    again.keep_receipts(tmp_path / "runs/kept.jsonl")
    told |= {info.step: info.digest for *_, info in again.batches(6, epochs=4, info=True)}
    assert receipts.read(tmp_path / "runs/kept.jsonl", videos.root).digests == told
    other = client.stream(train, CLIP, 3)
    words = r"has the receipts of another stream \(batch_size: 2 before, 3 now; shuffle: True "
    with pytest.raises(VideoloadError, match=words):
        other.keep_receipts(tmp_path / "runs/kept.jsonl")


def test_a_past_batch_is_made_again_or_reported_as_different(
    videos: Videos, client: Client, programs: Programs, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(videos.root, tmp_path / "videos"))
    stream = client.stream(videos.catalog, CLIP, 4, shuffle=True)
    kept = tmp_path / "kept.jsonl"
    stream.keep_receipts(kept)
    for _ in stream.batches(epochs=2):
        pass
    with kept.open("a") as out:
        out.write('{"step": 9, "dig')  # killed in the middle
    arguments = ("replay", str(kept), "--root", str(copy), "--step")
    same, none = programs.videoload(*arguments, "3"), programs.videoload(*arguments, "9")
    assert same.wait(60 * SECOND) == 0, same.err
    assert same.out == f"step 3 is the same batch: {receipts.read(kept, copy).digests[3]}\n"
    assert none.wait(60 * SECOND) == 1
    assert none.err == f"videoload: {kept} has no receipt of step 9\n"
    for path in videos.frames:
        make_avi(copy / path, frames=60, seed=99)
    changed = programs.videoload(*arguments, "3")
    assert changed.wait(60 * SECOND) == 1
    assert changed.err.startswith("videoload: step 3 is another batch: ")


def test_receipts_continue_if_nothing_that_decides_batches_has_changed(
    videos: Videos, client: Client, tmp_path: Path
) -> None:
    catalog, kept = videos.catalog, tmp_path / "kept.jsonl"
    lengths = [videos.frames[video.path] for video in catalog]
    known = Catalog(
        [video.path for video in catalog], catalog.labels, catalog.classes, catalog.root,
        frames=lengths,
    )  # fmt: skip
    client.stream(catalog, CLIP, 4).keep_receipts(kept)
    client.stream(catalog, CLIP, 4, max_bad=0.5).keep_receipts(kept)
    client.stream(known, CLIP, 4).keep_receipts(kept)
    head = json.loads(kept.read_text())
    assert head["videoload"]
    kept.write_text(json.dumps({**head, "videoload": "0.0.1"}) + "\n")
    client.stream(catalog, CLIP, 4).keep_receipts(kept)
    for other in (replace(CLIP, stride=2), replace(CLIP, sampling="center")):
        with pytest.raises(VideoloadError, match="has the receipts of another stream"):
            client.stream(catalog, other, 4).keep_receipts(kept)


def test_batches_with_mixtures_and_other_targets_are_made_again(
    videos: Videos, client: Client, programs: Programs, tmp_path: Path
) -> None:
    front, back = videos.catalog[::2], videos.catalog[1::2]
    known = Catalog(
        [video.path for video in videos.catalog], videos.catalog.labels, videos.catalog.classes,
        videos.root, frames=[videos.frames[video.path] for video in videos.catalog],
    )  # fmt: skip
    dense = replace(CLIP, sampling="dense", hop=8)
    streams = {
        "mixture": (mix({"a": (front, 0.7), "b": (back, 0.3)}), CLIP),
        "targets": (videos.catalog.with_targets(np.arange(len(videos.catalog)) / 7), CLIP),
        "dense": (known, dense),
    }
    for name, (catalog, clip) in streams.items():
        stream = client.stream(catalog, clip, 4, shuffle=True)
        stream.keep_receipts(kept := tmp_path / name)
        for _ in stream.batches(epochs=2):
            pass
        stream.head_room(lambda *batch: None, steps=1)
        assert len(kept.read_text().splitlines()) == 1 + 2 * len(stream), "no step is a probe's"
        found = receipts.read(kept, videos.root)
        assert list(found.catalog) == list(catalog)
        assert found.catalog.parts == catalog.parts
        arguments = ("replay", str(kept), "--root", str(videos.root), "--step", "2")
        same = programs.videoload(*arguments)
        assert same.wait(60 * SECOND) == 0, same.err
        but = " (of its clips; targets are not kept)" if name == "targets" else ""
        assert same.out == f"step 2 is the same batch: {found.digests[2]}{but}\n"


def test_a_function_that_receipts_name_is_imported_only_if_it_is_allowed(
    videos: Videos, client: Client, programs: Programs, tmp_path: Path
) -> None:
    function = "tests.support.transforms:invert"
    stream = client.stream(videos.catalog, replace(CLIP, transform=function), 4)
    stream.keep_receipts(kept := tmp_path / "kept.jsonl")
    next(iter(stream))
    arguments = ("replay", str(kept), "--root", str(videos.root), "--step", "0")
    refused = programs.videoload(*arguments)
    assert refused.wait(60 * SECOND) == 1
    module = function.partition(":")[0]
    assert refused.err == (
        f"videoload: {kept} names the function {function}: add --allow {module} if you trust it\n"
    )
    allowed = programs.videoload(*arguments, "--allow", module)
    assert allowed.wait(60 * SECOND) == 0, allowed.err


def test_functions_in_the_working_directory_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "found_here.py").write_text("")
    import_from_here()
    assert find_spec("found_here")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "5", "null", "no json", json.dumps({"kind": "clip"})]
)
def test_another_file_than_receipts_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text(text + "\n")
    with pytest.raises(VideoloadError, match="is not a file of receipts"):
        receipts.read(tmp_path / "kept", tmp_path)


def test_a_digest_is_made_when_it_is_asked_for_and_keeps_no_clips(
    videos: Videos, client: Client
) -> None:
    batches = client.stream(videos.catalog, CLIP, 2).batches(epochs=1, info=True)
    clips, labels, info = next(batches)
    assert info.digest == receipts.digests(clips, labels)[1]
    kept = weakref.ref(clips)
    del clips
    assert kept() is None
    with pytest.raises(VideoloadError, match="the clips of batch 0 are gone"):
        _ = info.digest
