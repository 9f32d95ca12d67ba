"""What a stream is: two streams with the same identity give the same batches.

A saved identity tells which setting differs from the one of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from hashlib import blake2b

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import do_lengths_decide
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import ItemSpec, Spec
from videoload.plan.options import StreamOptions

_DEFAULTS = {
    field.name: repr(field.default)
    for kind in (ClipSpec, ItemSpec, StreamOptions)
    for field in fields(kind)
    if field.default is not MISSING
}
_DECIDES_NOTHING = ("max_bad",)


@dataclass(frozen=True)
class Identity:
    """The settings that decide on a stream's batches, each as a short text.

    A setting that has its default is left out. The root is left out as well: the same videos may
    be in another place tomorrow.
    """

    settings: Mapping[str, str]

    @classmethod
    def of(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Identity:
        """The identity of a stream of these."""
        table = catalog._table
        starts, ends, frames = (column.astype("<i8").tobytes() for column in table.segments)
        paths = "\0".join(table.paths).encode(errors="surrogateescape")
        settings = {
            "kind": "clips" if isinstance(spec, ClipSpec) else "items",
            **_settings(spec),
            **_settings(options),
            "classes": _digest(len(catalog.classes), repr(catalog.classes).encode()),
            "videos": _digest(len(catalog), paths, starts, ends),
            "labels": _digest(len(catalog), catalog.labels.astype("<i8").tobytes()),
        }
        if do_lengths_decide(catalog, spec):
            settings["lengths"] = _digest(len(catalog), frames)
        if catalog.targets is not None:
            settings["targets"] = _digest(len(catalog), targets.digest(catalog.targets))
        if catalog.parts:
            settings["mixture"] = _digest(len(catalog.parts), repr(catalog.parts).encode())
        return cls(settings)

    @property
    def fingerprint(self) -> str:
        """64 bits in hex. All shards of a stream have the same one."""
        settings = {**self.settings, "shard": ""}
        return blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()

    def difference(self, saved: Mapping[str, str]) -> str:
        """Each setting in which this stream differs from a ``saved`` one, or ""."""

        def text(settings: Mapping[str, str], name: str) -> str:
            return settings.get(name, _DEFAULTS.get(name, "none"))

        return "; ".join(
            f"{name}: {text(saved, name)} before, {text(self.settings, name)} now"
            for name in {**saved, **self.settings}
            if saved.get(name) != self.settings.get(name)
        )


def _settings(told: Spec | StreamOptions) -> dict[str, str]:
    values = {field: getattr(told, field.name) for field in fields(told)}
    return {
        field.name: repr(value)
        for field, value in values.items()
        if value != field.default and field.name not in _DECIDES_NOTHING
    }


def _digest(count: int, *parts: bytes) -> str:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return f"{count} ({digest.hexdigest()})"
