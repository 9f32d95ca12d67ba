"""The ranks of a training run, as its launcher sets them: how many there are, and on this host."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from videoload.logs import Log
from videoload.plan.options import CheckedOptions

_log = Log(__name__)


def check_ranks(options: CheckedOptions) -> None:
    """Warn, once per process, if this is one of several ranks and each reads the whole epoch.

    A stream that is not shuffled may be for validation, where this can be meant.
    """
    if options["shuffle"] and options["shard"] == (0, 1):
        _warn()


@cache
def _warn() -> None:
    for name, ranks in ranks_of(os.environ).items():
        if ranks > 1:
            _log.warning(
                "%s announces %d ranks, but this stream has no shard=: each rank would "
                "train on all clips; give shard=(rank, %d)", name, ranks, ranks,
            )  # fmt: skip
            return


def ranks_here() -> int:
    """Return how many ranks torchrun has started on this host; 1 if unknown."""
    with suppress(KeyError, ValueError):
        return max(1, int(os.environ["LOCAL_WORLD_SIZE"]))
    return 1


def ranks_of(environment: Mapping[str, str]) -> dict[str, int]:
    """Return the number of ranks by each variable that launchers set: torchrun, Slurm,
    TensorFlow."""
    found = {}
    for name in ("WORLD_SIZE", "SLURM_NTASKS"):
        with suppress(KeyError, ValueError):
            found[name] = int(environment[name])
    with suppress(KeyError, ValueError, TypeError, AttributeError):
        cluster = json.loads(environment["TF_CONFIG"])["cluster"]
        found["TF_CONFIG"] = len(cluster.get("chief", ())) + len(cluster.get("worker", ()))
    return found
