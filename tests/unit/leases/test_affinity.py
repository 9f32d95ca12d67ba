"""Which host a clip prefers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.leases.affinity import best, keys

VIDEOS = keys(f"class/{number}.avi" for number in range(3000))
HOSTS = [f"host{number}" for number in range(8)]
NAMES = st.lists(st.text(max_size=20), min_size=2, max_size=8, unique=True)


def preferred(hosts: list[str], weights: list[float] | None = None) -> list[str]:
    places = best(VIDEOS, keys(hosts), np.array(weights or [1.0] * len(hosts)))
    return [hosts[place] for place in places]


def test_a_name_has_the_same_key_in_each_process() -> None:
    assert keys(["a.avi", "\udcff"]).tolist() == [1122736327486339726, 10048146903633127691]


@settings(max_examples=either(20, 100))
@given(NAMES)
def test_a_host_that_leaves_moves_only_its_own_videos(hosts: list[str]) -> None:
    before, after = preferred(hosts), preferred(hosts[1:])
    moved = [old for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) <= {hosts[0]}
    assert preferred(hosts[::-1]) == before, "whatever the order in which they came"


@settings(max_examples=either(20, 100))
@given(NAMES)
def test_a_host_gets_its_share(hosts: list[str]) -> None:
    count = Counter(preferred(hosts))
    for host in hosts:
        assert count[host] / 3000 == pytest.approx(1 / len(hosts), abs=0.06)


def test_a_weight_moves_videos_to_its_host_and_between_no_others() -> None:
    before, after = preferred(HOSTS), preferred(HOSTS, [3.0, *[1.0] * 7])
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {HOSTS[0]}
    assert Counter(after)[HOSTS[0]] / 3000 == pytest.approx(3 / 10, abs=0.04)
