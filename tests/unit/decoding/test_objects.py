"""Whether a function is as an import makes it: what can be told is told, and nothing else."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from videoload.decoding.objects import difference, texts

BESIDE = """
LEVEL = 3
def level(): return LEVEL
class Base:
    GAIN = 2
    def gain(self): return self.GAIN
"""
CODE = """
import functools, itertools, json, logging, math, os, random, re, sys, time
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
import numpy as np
import beside
from beside import Base, level

log, started, unused = logging.getLogger(__name__), time.time(), 5
STRENGTH, MEAN, NAMES = 1, np.array([1.0, 2.0], np.float32), frozenset({"x", "y", "z"})
CONFIG = {"strength": 1, "inner": {"a": [1, 2]}, "how": np.mean}
PATTERN, CACHE, MODEL, TABLE = re.compile("a+"), {}, None, None
RNG, PYTHONS, COUNT = np.random.default_rng(0), random.Random(0), itertools.count()
class Mode(Enum):
    A, B = 1, 2
@dataclass
class Settings:
    gain: int = 3
    names: list = field(default_factory=list)
settings = Settings()
class Shift(Base):
    __slots__ = ("amount", "lazy")
    def __init__(self, amount): self.amount, self.lazy = amount, None
    def __call__(self, clip, rng):
        self.lazy = self.lazy or len(clip)
        return clip + self.amount + self.gain()
shift, method = Shift(1), Shift(1).__call__
def traced(f):
    @functools.wraps(f)
    def wrapper(*given): return f(*given)
    return wrapper
@functools.lru_cache
def table(n): return np.arange(n + STRENGTH)
def lazy():
    global MODEL, TABLE
    MODEL, TABLE = MODEL or object(), np.arange(9)
    return MODEL
def helper(clip): return clip + STRENGTH
def add(clip, rng, k=1): return helper(clip) + k
decorated, bound = traced(add), functools.partial(add, k=3)
def array(clip, rng): return clip * MEAN[0] + len(NAMES)
def config(clip, rng): return clip * CONFIG["strength"] * settings.gain
def sibling(clip, rng): return clip + beside.LEVEL
def sibling_too(clip, rng): return np.clip(level() + clip, 0, abs(9))
def noise(clip, rng): return clip + RNG.integers(5)
def more_noise(clip, rng): return clip + PYTHONS.randrange(5)
def counted(clip, rng): return clip + next(COUNT)
def seeded(clip, rng):
    PYTHONS.seed(int(rng.integers(9)))
    return clip + PYTHONS.randrange(5)
def usual(clip, rng):
    log.info("%s", NAMES), print(file=sys.stderr), math.floor(2.5), json.dumps({}), os.getpid()
    Path("x"), OrderedDict(), Mode.A, np.random.rand(), random.randint(1, 2), PATTERN.match("aa")
    lazy(), table(7), CACHE.setdefault(len(CACHE), clip), shift(clip, rng), "p" in {"p", "q"}
    return [(lambda x: x + STRENGTH)(x) for x in clip]
"""
CLIP = np.zeros(4)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "augment.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("augment")
    for name in ("augment", "beside"):
        del sys.modules[name]


def mine(clip: Any, *_: Any) -> Any:
    return clip


@pytest.mark.parametrize(
    ("function", "change", "told"),
    [
        ("add", "augment.STRENGTH = 9", "augment.STRENGTH is 9"),
        ("add", "augment.helper = mine", "augment.helper"),
        ("add", "augment.add.__defaults__ = (9,)", "augment.add: defaults[0] is 9"),
        ("add", "augment.add = mine", "augment.add"),
        ("decorated", "augment.STRENGTH = 9", "augment.STRENGTH"),
        ("bound", "augment.bound.keywords['k'] = 9", "augment.bound: keywords['k'] is 9"),
        ("array", "augment.MEAN[0] = 9", "augment.MEAN"),
        ("array", "augment.NAMES = augment.NAMES | {'w'}", "augment.NAMES"),
        ("config", "augment.CONFIG['strength'] = 9", "augment.CONFIG['strength'] is 9"),
        ("config", "augment.settings.gain = 9", "augment.settings.gain is 9"),
        ("shift", "augment.shift.amount = 9", "augment.shift.amount is 9"),
        ("shift", "beside.Base.GAIN = 9", "beside.Base.GAIN is 9"),
        ("shift", "augment.Shift.__call__ = mine", "augment.Shift.__call__"),
        ("method", "augment.method.__self__.amount = 9", "amount is 9"),
        ("sibling", "beside.LEVEL = 9", "beside.LEVEL is 9"),
        ("sibling_too", "beside.LEVEL = 9", "beside.LEVEL is 9"),
        ("sibling_too", "augment.level = mine", "augment.level"),
        ("sibling_too", "augment.abs = mine", "augment.abs"),
        ("sibling_too", "monkeypatch.setattr('numpy.clip', mine)", "numpy.clip"),
        ("usual", "augment.STRENGTH = 9", "augment.STRENGTH is 9"),
        ("noise", "", "augment.RNG is a Generator"),
        ("more_noise", "", "augment.PYTHONS is a Random"),
        ("counted", "", "augment.COUNT"),
    ],
)
def test_what_is_not_as_imported_or_keeps_a_state_is_named(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, function: str, change: str, told: str
) -> None:
    fresh = texts(f"augment:{function}")
    names = {"augment": module, "beside": module.beside, "mine": mine, "monkeypatch": monkeypatch}
    exec(change, names)
    found = difference(texts(f"augment:{function}"), fresh)
    assert told in found
    assert "\n" not in found


@pytest.mark.parametrize("function", ["usual", "shift", "array", "config", "seeded", "decorated"])
def test_a_function_that_was_called_is_as_imported_and_so_is_what_it_does_not_use(
    module: ModuleType, function: str
) -> None:
    fresh = texts(f"augment:{function}")
    for each in (module.usual, getattr(module, function)):
        each(CLIP, np.random.default_rng(0))
    module.unused, module.started = 9, 0.0  # type: ignore[attr-defined]
    assert difference(texts(f"augment:{function}"), fresh) == ""


def test_code_of_a_file_that_was_edited_is_told_and_a_comment_is_not(
    module: ModuleType, tmp_path: Path
) -> None:
    before = texts("augment:add")
    for text, told in (
        (f"# {CODE}", ""),
        (CODE.replace("clip + STRENGTH", "clip"), "augment.helper"),
    ):
        (tmp_path / "augment.py").write_text(text)
        found = difference(before, texts(importlib.reload(module).__name__ + ":add"))
        assert told in found if told else found == ""
