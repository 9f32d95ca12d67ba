"""A training on several ranks whose streams are not sharded is warned about once."""

import json
import logging
from collections.abc import Iterator

import pytest

from videoload.client import ranks
from videoload.plan.options import checked_options

CLUSTER = {"worker": ["a:1", "b:1"], "chief": ["c:1"], "ps": ["d:1"]}


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("WORLD_SIZE", "SLURM_NTASKS", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    ranks._warn.cache_clear()
    yield
    ranks._warn.cache_clear()


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, {}),
        ({"WORLD_SIZE": "4", "SLURM_NTASKS": "1"}, {"WORLD_SIZE": 4, "SLURM_NTASKS": 1}),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {}})}, {"TF_CONFIG": 3}),
        ({"TF_CONFIG": "{}", "WORLD_SIZE": "many", "SLURM_NTASKS": ""}, {}),
        ({"TF_CONFIG": "[3]", "WORLD_SIZE": "null", "SLURM_NTASKS": "[]"}, {}),
        ({"TF_CONFIG": '{"cluster": {"worker": 3}}'}, {}),
    ],
)
def test_the_variables_of_launchers_are_read(
    environment: dict[str, str], found: dict[str, int]
) -> None:
    assert ranks.ranks_of(environment) == found


def test_several_ranks_without_shard_are_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranks.check_ranks(checked_options(4, shuffle=True, shard=(0, 2)))
    ranks.check_ranks(checked_options(4))
    assert caplog.messages == []
    for _ in range(2):
        ranks.check_ranks(checked_options(4, shuffle=True))
    (told,) = caplog.messages
    assert "WORLD_SIZE" in told
    assert "shard=(rank, 2)" in told


@pytest.mark.parametrize(("said", "ranks_here"), [("4", 4), ("0", 1), ("many", 1), (None, 1)])
def test_the_ranks_of_a_host_share_its_cores(
    said: str | None, ranks_here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if said is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", said)
    assert ranks.ranks_here() == ranks_here
