"""What a stream is: two streams with the same identity give the same batches.

A saved identity shows which setting differs from the one of today.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.msgpack import encode

from videoload.arguments import not_default
from videoload.catalog import targets
from videoload.catalog.catalog import Catalog, table_of
from videoload.clips.clip_spec import ClipSpec, crops_of
from videoload.clips.rows import COLUMNS, OF_FILE
from videoload.clips.sample_spec import SampleSpec
from videoload.plan.options import DEFAULTS, CheckedOptions
from videoload.plan.windows import deciding

Settings = Mapping[str, str]  # Each name with its value as Python text, without defaults.

_DEFAULTS = {
    **{field.name: repr(field.default) for field in fields(ClipSpec)},
    **{name: repr(value) for name, value in DEFAULTS.items()},
}
_DECIDES_NOTHING = "max_bad"
_DECIDES_NO_CLIP = OF_FILE - {"label"}  # columns


@dataclass(frozen=True)
class Identity:
    """The settings that decide on a stream's batches. A setting that has its default is left out.

    The root is left out as well: the same videos may be in another place tomorrow.
    """

    settings: Settings
    fixed_ranks: str = ""
    """Why a step of all ranks together has other samples with another number of ranks. "": it has
    the same, where ranks times batch size is the same."""

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        spec: SampleSpec,
        options: CheckedOptions,
        code: Mapping[str, str] = MappingProxyType({}),
    ) -> Identity:
        """Return the identity of a stream. ``code``: digests of the user's modules."""
        table, rows = table_of(catalog), len(catalog)
        paths = "\0".join(table.paths).encode(errors="surrogateescape")
        settings = {
            **_spec_settings(spec),
            **_option_settings(options),
            "classes": _digest(len(catalog.classes), repr(catalog.classes).encode()),
            "videos": _digest(rows, paths),
        }
        for name, column in table.columns.items():
            if name not in _DECIDES_NO_CLIP and (name != "box" or spec.leader.crop == "box"):
                settings[COLUMNS[name][0]] = _digest(rows, column)
        if table.steps is not None:
            settings["steps"] = _digest(rows, encode(table.steps))
        if isinstance(options["balance"], tuple):
            settings["balance"] = _digest(rows, np.array(options["balance"]))
        if known := deciding(catalog, spec, options["buckets"]):
            settings["lengths"] = _digest(rows, *known)
        if catalog.targets is not None:
            settings["targets"] = _digest(rows, targets.digest(catalog.targets))
        if catalog.parts:
            settings["mixture"] = _digest(len(catalog.parts), repr(catalog.parts).encode())
        if code:
            settings["code"] = ", ".join(f"{name} ({code[name]})" for name in sorted(code))
        return cls(settings, fixed_ranks(catalog, spec, options))

    @property
    def fingerprint(self) -> str:
        """64 bits in hex. All shards of a stream have the same one."""
        return _hash({**self.settings, "shard": ""})

    @property
    def of_all_ranks(self) -> str:
        """Return the identity of all ranks' batches together, at each step: 64 bits in hex. "": it
        depends on the number of ranks."""
        if self.fixed_ranks:
            return ""
        _, world = literal_eval(self.settings.get("shard", _DEFAULTS["shard"]))
        rows = world * int(self.settings["batch_size"])
        return _hash({**self.settings, "shard": "", "batch_size": f"{rows} of all ranks"})

    def difference(self, saved: Settings) -> str:
        """Return the settings in which this stream differs from a ``saved`` one, or ""."""
        return "; ".join(
            f"{name}: {_shown(saved, name)} before, {_shown(self.settings, name)} now"
            for name in {**saved, **self.settings}
            if saved.get(name) != self.settings.get(name)
        )

    def obstacle(self, saved: Settings, ranks: int) -> str:
        """Return why this stream cannot resume a ``saved`` one of so many ranks, or ""."""
        own, before = ({**each, "shard": ""} for each in (self.settings, saved))
        _, world = literal_eval(self.settings.get("shard", _DEFAULTS["shard"]))
        if ranks == world:
            return Identity(own).difference(before)
        size, size_before = (each.pop("batch_size", "0") for each in (own, before))
        found = Identity(own).difference(before)
        if self.fixed_ranks:
            found += f"; {ranks} ranks before, {world} now, and {self.fixed_ranks} needs the same"
        elif ranks * int(size_before) != world * int(size):
            found += (
                f"; batch_size {size_before} on each of {ranks} ranks before, {size} on each of "
                f"{world} now, and their product must be the same"
            )
        return found.removeprefix("; ")


def fixed_ranks(catalog: Catalog, spec: SampleSpec, options: CheckedOptions) -> str:
    """Return the condition of `Identity.fixed_ranks`. Samples that take turns have it: each rank
    has turns of its own. The last batch of an epoch has it, if it may be smaller."""
    if catalog.parts:
        return "a mixture"
    if options["balance"] == "class":
        return 'balance="class"'
    if not (size := options["batch_size"]):
        return "batch_frames="
    if size % (crops := crops_of(spec.leader)):
        return f"a batch_size that the {crops} crops of a clip do not divide"
    drop = options["drop_remainder"]
    return "" if drop is True else f"drop_remainder={drop!r}"


def _option_settings(options: CheckedOptions) -> dict[str, str]:
    given = {name: repr(value) for name, value in options.items() if name != _DECIDES_NOTHING}
    return {name: text for name, text in given.items() if text != _DEFAULTS.get(name)}


def _spec_settings(spec: SampleSpec) -> dict[str, str]:
    parts, settings = (*spec.clips,), {}
    if parts != ("",):
        settings = {"parts": repr(parts), "by": repr(spec.by), "offsets_s": repr(spec.offsets_s)}
    for name, clip in spec.clips.items():
        of = f"{name}: " if name else ""
        settings |= {of + field: repr(own) for field, own in not_default(clip).items()}
    return settings


def _shown(settings: Settings, name: str) -> str:
    return settings.get(name, _DEFAULTS.get(name, "none"))


def _hash(settings: Settings) -> str:
    return blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()


def _digest(count: int, *parts: bytes | npt.NDArray[Any]) -> str:
    found = b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)
    return f"{count} ({blake2b(found, digest_size=8).hexdigest()})"
