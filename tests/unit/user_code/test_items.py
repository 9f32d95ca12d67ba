"""What a user's function makes, and whom its failures are blamed on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import items
from videoload.clips.item_spec import ItemSpec
from videoload.clips.sample_spec import arrays_of
from videoload.errors import TransformError, VideoError
from videoload.user_code.functions import UserFunction
from videoload.user_code.items import PreparedItems, checked_name, load_items

ONE = {"shape": (2, 3), "dtype": "float32"}
SEVERAL: dict[str, Any] = {
    "shape": {"image": (2, 3), "bright": (), "at": (3,)},
    "dtype": {"image": "float32", "bright": "bool", "at": "float64"},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bad.npy"
    np.save(path, np.arange(6, dtype=np.float32).reshape(2, 3))
    return path


def made(name: str, file: Path, seeds: tuple[int, ...] = (5,), **spec: Any) -> Any:
    """The arrays that a function makes of a file."""
    asked = ItemSpec(f"tests.support.items:{name}", **(spec or ONE))
    out = np.zeros((len(seeds), asked.clip_bytes), np.uint8)
    prepared = PreparedItems(
        "x/bad.npy", asked, seeds, out, UserFunction(getattr(items, name)), str(file)
    )
    ticks: list[None] = []
    frames = load_items(prepared, lambda: ticks.append(None))
    assert (frames.shape, frames.dtype) == ((len(seeds), 0), np.dtype(np.int64))
    assert len(ticks) == len(seeds)
    return arrays_of(asked, out)


def test_the_array_is_put_into_its_place(file: Path) -> None:
    assert (made("load", file) == np.load(file)[None]).all()


def test_what_is_drawn_follows_from_the_seed_alone(file: Path) -> None:
    first, second, again = made("noisy", file, (5, 6, 5))
    assert (first == again).all()
    assert (first != second).any()
    expected = np.random.Generator(np.random.PCG64(5)).standard_normal((2, 3), np.float32)
    assert (first == np.load(file) + expected).all()


def test_several_arrays_are_put_into_theirs(file: Path) -> None:
    arrays = made("several", file, **SEVERAL)
    assert (arrays["image"][0] == np.load(file)).all()
    assert arrays["bright"].tolist() == [True]
    assert arrays["at"].shape == (1, 3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", r"failed: ValueError: no luck \(items.py:\d+\)"),
        ("another_shape", "returned float32[1, 3], not float32[2, 3]"),
        ("another_type", "returned float64[2, 3], not float32[2, 3]"),
        ("leaves", r"failed: SystemExit: enough \(items.py:\d+\)"),
    ],
)
def test_what_may_be_the_files_fault_is_one_line_that_names_it(
    file: Path, name: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(VideoError) as raised:
        made(name, file)
    assert raised.value.path == "x/bad.npy"
    said = raised.value.reason
    told = said.removeprefix(f"load function tests.support.items:{name} ")
    assert re.fullmatch(words if "(" in words else re.escape(words), told), said
    if "failed" in words:
        assert "Traceback (most recent call last)" in caplog.text
        assert "in raises" in caplog.text or "in leaves" in caplog.text


def test_what_no_file_can_be_blamed_for_ends_the_stream_with_the_traceback(file: Path) -> None:
    with pytest.raises(TransformError) as raised:
        made("mistaken", file)
    first, *lines = str(raised.value).splitlines()
    assert (
        "load function tests.support.items:mistaken failed at x/bad.npy: NameError: name" in first
    )
    assert lines[0] == "Traceback (most recent call last):"
    assert any("return undefined_name" in line for line in lines)
    assert not any("_call" in line for line in lines), "only the user's own code"


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("forgets", ONE, "returned a NoneType, not float32[2, 3], for x/bad.npy"),
        ("load", SEVERAL, "returned float32[2, 3] for x/bad.npy, not a dict of ['image', 'bright'"),
        ("other_names", SEVERAL, "returned a dict of ['picture'] for x/bad.npy, not a dict of"),
        ("several", ONE, "returned a dict, not float32[2, 3]"),
    ],
)
def test_a_function_that_returns_something_else_is_mistaken(
    file: Path, name: str, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(TransformError, match=re.escape(words)):
        made(name, file, **spec)


def test_a_name_that_leads_to_a_file_is_none_of_another_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").touch()
    assert checked_name("17") == "17"
    for name in ("secret", "/etc/passwd", "../x", "a/b", ".", "..", "a\0b"):
        with pytest.raises(VideoError, match="is no name for a worker that dials in"):
            checked_name(name)
