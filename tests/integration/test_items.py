"""Items that are not clips, from end to end: the same bytes by every way, and every
failure named."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.support.digests import digest, digests
from tests.support.programs import Programs
from tests.support.quick import rest_slow
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import (
    Catalog,
    Client,
    ClipSpec,
    ClosedError,
    ItemSpec,
    SpecError,
    TooManyBadVideos,
    TransformError,
    decode_serially,
)

pytestmark = [pytest.mark.timeout(180 * SECOND), pytest.mark.xdist_group("items")]

SEVERAL: dict[str, Any] = {
    "shape": {"image": (2, 3), "bright": (), "at": (3,)},
    "dtype": {"image": "float32", "bright": "bool", "at": "float64"},
}
NUMBERS = ItemSpec("tests.support.items:numbers", (2, 3), "float32", files=False)
HOW: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "drop_remainder": False}


def spec(name: str) -> ItemSpec:
    if name == "several":
        return ItemSpec("tests.support.items:several", **SEVERAL)
    if name == "numbers":
        return NUMBERS
    return ItemSpec(f"tests.support.items:{name}", (2, 3), "float32")


def make(root: Path, good: int = 14, bad: int = 0) -> Catalog:
    """A catalog of .npy files in two classes."""
    for number in range(good + bad):
        name = f"{number}.npy" if number < good else f"bad{number}.npy"
        path = root / ("odd" if number % 2 else "even") / name
        path.parent.mkdir(exist_ok=True)
        np.save(path, np.full((2, 3), number - 5, np.float32))
    return Catalog.from_folder(root, suffixes=[".npy"])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return make(tmp_path)


@pytest.fixture(scope="module")
def names() -> Catalog:
    """Names of numbers: there are no files."""
    return Catalog([str(n) for n in range(14)], [n % 3 for n in range(14)], ["a", "b", "c"])


def expected(catalog: Catalog, item: ItemSpec | ClipSpec, **more: Any) -> list[str]:
    return digests(decode_serially(catalog, item, info=True, **HOW | more))


def got(client: Client, catalog: Catalog, item: ItemSpec | ClipSpec, **more: Any) -> list[str]:
    reading = {name: more.pop(name) for name in ("epochs", "start_step") if name in more}
    stream = client.stream(catalog, item, **HOW | more)
    return digests(stream.batches(info=True, **reading))


@pytest.mark.parametrize("name", ["noisy", "several", "numbers"])
def test_local_workers_give_what_the_reference_gives(
    name: str, catalog: Catalog, names: Catalog, client: Client
) -> None:
    chosen, item = names if name == "numbers" else catalog, spec(name)
    assert got(client, chosen, item, epochs=2) == expected(chosen, item, epochs=2)
    serial = expected(chosen, item, epochs=3, start_step=5)
    assert got(client, chosen, item, epochs=3, start_step=5) == serial


@pytest.mark.slow
@pytest.mark.parametrize("workers", rest_nightly([3, 1]))
def test_the_number_of_workers_changes_nothing(workers: int, catalog: Catalog) -> None:
    with Client(workers=workers) as client:
        for name in ("noisy", "several"):
            assert got(client, catalog, spec(name)) == expected(catalog, spec(name))


def test_the_reference_gives_what_the_function_returns(catalog: Catalog, names: Catalog) -> None:
    assert isinstance(catalog.root, Path)
    item = spec("load")
    for batch, labels, info in decode_serially(catalog, item, info=True, **HOW):
        assert batch.dtype == np.float32
        for row, label, video in zip(batch, labels, info.video, strict=True):
            assert (row == np.load(catalog.root / catalog[video].path)).all()
            assert label == catalog[video].label
        assert info.frames.shape == (len(batch), 0)
    whole = np.concatenate([batch for batch, _ in decode_serially(names, NUMBERS, 7)])
    assert np.floor(whole).tolist() == np.floor(whole[:, :1, :1] * np.ones((2, 3))).tolist()
    assert (whole[:, 0, 0].astype(int) == np.arange(14)).all()


def test_held_batches_keep_their_slots_even_if_only_a_slice_is_held(
    catalog: Catalog, client: Client
) -> None:
    stream = client.stream(catalog, spec("several"), slots=4, **HOW)
    held: list[Any] = [
        (batch["image"][1:], batch["at"]) for batch, _ in cast(Any, stream.batches(epochs=5))
    ]
    serial = decode_serially(catalog, spec("several"), epochs=5, **HOW)
    for (images, at), (batch, _) in zip(held, serial, strict=True):
        wanted: Any = batch
        assert (images == wanted["image"][1:]).all()
        assert (at == wanted["at"]).all()
    assert stream.stats().copied > 0, "and most of them were copied, since all were kept"


@pytest.mark.slow
@pytest.mark.parametrize("workers", rest_nightly([3, 1]))
def test_workers_that_dial_in_give_the_same(
    workers: int, catalog: Catalog, names: Catalog, programs: Programs
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        words = ("--allow", "tests.support.items", "--workers", str(workers))
        assert catalog.root is not None
        programs.worker(client.endpoints[0], catalog.root, *words)
        client.wait_for_workers(workers, 60 * SECOND)
        for name in ("noisy", "several", "numbers"):
            chosen, item = names if name == "numbers" else catalog, spec(name)
            assert got(client, chosen, item, epochs=2) == expected(chosen, item, epochs=2)


def test_a_worker_ends_even_while_a_function_runs(catalog: Catalog, programs: Programs) -> None:
    assert catalog.root is not None
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        flags = ("--workers", "1", "--allow", "tests.support.items")
        words = (client.endpoints[0], catalog.root, *flags)
        workers = [(programs.worker(*words), *how) for how in ENDED]
        stream = client.stream(catalog, spec("never_returns"), 1)

        def read() -> None:
            with suppress(ClosedError):
                next(iter(stream))

        reader = threading.Thread(target=read)
        reader.start()
        for worker, number, status in workers:
            worker.wait_for("it has begun", 40 * SECOND)
            began = time.monotonic()
            worker.signal(number)
            assert worker.wait(30 * SECOND) == status
            assert time.monotonic() - began < either(8, 2) * SECOND
    reader.join(30 * SECOND)


ENDED = [(signal.SIGTERM, 0), (signal.SIGINT, 130)]


def test_a_worker_calls_no_function_that_its_owner_did_not_allow(
    videos: Videos, names: Catalog, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.leases.blame._COMING_S", 0.1)  # no other worker will come
    module = "tests.support.transforms"
    clip = ClipSpec(4, stride=2, size=(32, 32), transform=f"{module}:invert")
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        words = (client.endpoints[0], videos.root)
        refusing = programs.worker(*words)
        client.wait_for_workers(1, 60 * SECOND)
        with pytest.raises(
            TransformError, match=r"load function tests\.support\.items:numbers: .*--allow "
        ):
            list(client.stream(names[:1], NUMBERS, 1))  # few mistakes: it gets no pause
        with pytest.raises(TransformError, match=f"does not allow it.*--allow {module}"):
            list(client.stream(videos.catalog[:1], clip, 1))
        refusing.signal(signal.SIGTERM)
        wait_until(lambda: not client.workers, 30 * SECOND)
        programs.worker(*words, "--allow", "tests.support.items", "--allow", module)
        client.wait_for_workers(1, 60 * SECOND)
        assert got(client, names, NUMBERS) == expected(names, NUMBERS)
        assert got(client, videos.catalog, clip) == expected(videos.catalog, clip)
        path = videos.catalog[0].path  # a name that leads to a file is refused
        files = Catalog([path, *map(str, range(3))], [0] * 4, ["all"])
        stream = client.stream(files, NUMBERS, 1)
        list(stream)
        assert [video.path for video in stream.quarantine] == [path]
        assert "it may lead to a file" in stream.quarantine[0].reason


@pytest.mark.parametrize(
    ("name", "words"),
    rest_slow(
        [
            ("raises", "failed: ValueError: no luck (items.py:"),
            ("another_shape", "returned float32[1, 3], not float32[2, 3]"),
            ("another_type", "returned float64[2, 3], not float32[2, 3]"),
            ("leaves", "failed: SystemExit: enough"),
            ("eats_memory", "MemoryError"),
        ],
        3,
    ),
)
def test_an_item_that_fails_is_named_and_replaced(
    name: str, words: str, tmp_path: Path, client: Client
) -> None:
    catalog = make(tmp_path, bad=2)
    stream = client.stream(catalog, spec(name), **HOW)
    given = digests(stream.batches(info=True))
    assert sorted(bad.path for bad in stream.quarantine) == ["even/bad14.npy", "odd/bad15.npy"]
    assert all(words in bad.reason for bad in stream.quarantine)
    if name != "eats_memory":  # there is no limit here
        assert given == expected(catalog, spec(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stall_s"),
    rest_nightly([("ends", 10.0), ("hangs", 1.0), ("crashes", 10.0), ("burns", 1.0)]),
)
def test_an_item_that_ends_or_hangs_its_workers_is_named(
    name: str, stall_s: float, tmp_path: Path
) -> None:
    catalog = make(tmp_path, bad=1)
    with Client(workers=2, stall_s=stall_s * SECOND) as client:
        stream = client.stream(catalog, spec(name), **HOW)
        given = digests(stream.batches(epochs=2, info=True))
        assert [bad.path for bad in stream.quarantine] == ["even/bad14.npy"]
        said = (
            r"^3 workers died or hung while decoding it, or in load |^no sign of life for .* load "
        )
        assert re.search(said, stream.quarantine[0].reason)
    # The same as if the function raised an exception there.
    assert given == expected(catalog, spec("raises"), epochs=2)


@pytest.mark.nightly
def test_a_name_for_which_the_function_sleeps_for_ever_is_condemned() -> None:
    catalog = Catalog(["1", "2", "bad", "3"], [0] * 4, ["all"])
    item = ItemSpec("tests.support.items:hangs_at_a_name", (), "float32", files=False)
    with Client(workers=1, stall_s=1 * SECOND) as client:
        stream = client.stream(catalog, item, 1)
        assert len(list(stream)) == 4
        assert [bad.path for bad in stream.quarantine] == ["bad"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mistaken", "NameError.*Traceback.*return undefined_name"),
        ("forgets", "returned a NoneType"),
        ("not_there", "load function tests.support.items:not_there cannot be imported"),
    ],
)
def test_a_mistake_in_the_function_reaches_the_trainer_with_its_place(
    name: str, words: str, catalog: Catalog, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TransformError, match="(?s)" + words) as serial:
        next(decode_serially(catalog, spec(name), 4))
    stream = client.stream(catalog, spec(name), 4)
    with pytest.raises(TransformError) as raised:
        next(iter(stream))
    assert str(raised.value) == str(serial.value)
    first = str(raised.value).splitlines()[0]
    workers = {f"worker {worker.name}: {first}" for worker in client.workers}
    assert workers & {*caplog.messages}, "the log tells whose it was"
    assert stream.quarantine == []


def test_a_function_that_fails_at_every_item_ends_the_stream(
    tmp_path: Path, client: Client
) -> None:
    catalog = make(tmp_path, good=0, bad=9)
    with pytest.raises(TooManyBadVideos, match=r"ValueError: no luck \(items.py:\d+\)"):
        list(client.stream(catalog, spec("raises"), 2))


@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_a_function_that_fails_for_some_random_draws_gives_the_same_by_every_way(
    on_error: str, catalog: Catalog, client: Client
) -> None:
    how = {"max_bad": 1.0, "on_error": on_error, "epochs": 6}
    assert got(client, catalog, spec("lucky"), **how) == expected(catalog, spec("lucky"), **how)


@pytest.mark.slow
@pytest.mark.parametrize("dialled_in", rest_nightly([True, False]))
def test_a_worker_that_is_killed_changes_no_byte(
    dialled_in: bool, catalog: Catalog, programs: Programs
) -> None:
    assert catalog.root is not None
    listen = "tcp://127.0.0.1:*" if dialled_in else None
    with Client(workers=0 if dialled_in else 2, listen=listen) as client:
        if dialled_in:
            words = ("--allow", "tests.support.items")
            first = programs.worker(client.endpoints[0], catalog.root, *words).pid
            programs.worker(client.endpoints[0], catalog.root, *words)
            client.wait_for_workers(2, 30 * SECOND)
        else:
            client.wait_for_workers(2, 30 * SECOND)
            first = client.workers[0].pid
        stream = client.stream(catalog, spec("several"), **HOW)
        given = []
        for number, batch in enumerate(stream.batches(epochs=40, info=True)):
            if number == 20:
                os.kill(first, signal.SIGKILL)
            given += digests([batch])
    assert given == expected(catalog, spec("several"), epochs=40)


def test_names_need_no_root_and_files_do(names: Catalog) -> None:
    with pytest.raises(SpecError, match="root"):
        decode_serially(names, spec("load"), 2)


def test_a_dataset_has_the_arrays_of_the_spec(
    catalog: Catalog, names: Catalog, client: Client, tf: Any
) -> None:
    for chosen, item in ((catalog, spec("several")), (names, NUMBERS)):
        dataset = client.stream(chosen, item, 4, shuffle=True, seed=2).dataset()
        inputs, labels = dataset.element_spec
        assert labels == tf.TensorSpec((4,), tf.int64)
        if item is NUMBERS:
            assert inputs == tf.TensorSpec((4, 2, 3), tf.float32)
        else:
            assert inputs == {
                "image": tf.TensorSpec((4, 2, 3), tf.float32),
                "bright": tf.TensorSpec((4,), tf.bool),
                "at": tf.TensorSpec((4, 3), tf.float64),
            }
        serial = decode_serially(chosen, item, 4, shuffle=True, seed=2)
        assert digest(dataset.as_numpy_iterator()) == digest(serial)
