"""Mixtures of catalogs, and checks of catalogs with several parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.arguments import real
from videoload.catalog import targets as targets_
from videoload.catalog.catalog import Catalog, catalog_of, table_of
from videoload.catalog.concatenation import concatenated
from videoload.catalog.interleaving import weights
from videoload.catalog.table import Ints, MixPart
from videoload.clips.affine import Matrices
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.edges import pictures
from videoload.clips.sample_spec import SampleSpec, moment_at
from videoload.clips.windows import step_of
from videoload.errors import CatalogError, SpecError
from videoload.logs import Log
from videoload.storage.paths import parts_of

_log = Log(__name__)


def mix(parts: Mapping[str, tuple[Catalog, float]]) -> Catalog:
    """Mix catalogs: a stream has clips of each catalog in the given shares.

    Examples:
        >>> train, test = catalog.split(0.8)
        >>> mixture = vl.mix({"often": (train, 0.7), "less": (test, 0.3)})

    The shares hold in every part of the stream, within one or two clips, and on each rank of
    ``shard``. Each part shows all its clips before it repeats one, also across epochs, and with
    ``shuffle=True`` in a new order each time. An epoch has as many clips as all parts together, and
    the next epoch continues where it ended. So a run resumes only with the same number of ranks.
    ``info.video`` identifies the part: see `Catalog.parts`.

    Args:
        parts: By name: the catalog and its share (any positive number; shares are divided by their
            sum). Roots and classes become one as in `Catalog.concat`. Segments may be in several
            parts.

    Returns:
        A catalog of all videos, part after part. It has no subsets and no split.

    Raises:
        CatalogError: The catalogs cannot be joined, or one is a mixture.
        SpecError: A share is not positive, or below 1 in 10000.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise SpecError('mix takes {"name": (catalog, share), ...}, at least one')
    for name, part in parts.items():
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise SpecError(f"{name!r} must be (catalog, share)")
    shares = [real(f"share of {name!r}", share, 1e-9) for name, (_, share) in parts.items()]
    for name, (catalog, _) in parts.items():
        if not isinstance(catalog, Catalog):
            raise CatalogError(f"{name!r} must be (catalog, share), got {catalog!r:.80}")
    tables = {repr(name): table_of(catalog) for name, (catalog, _) in parts.items()}
    joined, found, start = concatenated(tables), [], 0
    for (name, (catalog, _)), share in zip(parts.items(), shares, strict=True):
        found.append(MixPart(name, start, start + len(catalog), share / sum(shares)))
        start += len(catalog)
    weights(shares)
    return catalog_of(joined.replaced(parts=tuple(found)))


def targets_of(
    catalog: Catalog,
    videos: Ints,
    frames: Ints,
    affine: Matrices | dict[str, Matrices] | None = None,
    moments: Ints | None = None,
    seeds: npt.NDArray[np.uint64] | None = None,
) -> Any:
    """Return the labels of a batch with these videos, int64 [B], or the rows of targets for the
    source frames that are shown, int64 [B, T]; with the matrices of the clips, which `Points` and
    `Boxes` need, with what `moments_of` gives, for `Steps`, and with the seeds of the clips, for
    `OneOf`. Raises SpecError if a video has no target for a frame."""
    if catalog.targets is None:
        return catalog.labels[videos]
    path_of = catalog.paths.__getitem__
    return targets_.batch(catalog.targets, videos, frames, affine, path_of, moments, seeds)


def moments_of(
    catalog: Catalog, spec: ClipSpec, videos: Ints, clips: Ints, frames: Ints
) -> Ints | None:
    """Return the moment of clips with these numbers, which show these source frames: frames from
    the first one of their row, or its step. None: clips of this spec have no moment."""
    if (at := moment_at(spec)) is None:
        return None
    if (steps := table_of(catalog).steps) is not None:
        pairs = zip(videos.tolist(), clips.tolist(), strict=True)
        return np.array([step_of(spec, steps[video], clip) for video, clip in pairs], np.int64)
    shown = pictures(frames).reshape(len(frames), -1, frames.shape[-1])[:, 0, at]  # of all views
    return np.asarray(shown - table_of(catalog).column("start")[videos], np.int64)


def file_rows(catalog: Catalog, side: int | None = None) -> Catalog:
    """Return the videos, without parts, classes and targets. Of several files as one sample, all,
    or only those number ``side``."""
    table = table_of(catalog)
    if side is not None and table.sample_parts is not None:
        columns = {name: column for name, column in table.columns.items() if name != "places"}
        paths = [parts_of(path)[side] for path in table.paths]
        table = table.replaced(paths=paths, columns=columns)
    return catalog_of(
        table.replaced(parts=(), classes=(), targets=None, windows=None, sample_parts=None)
    )


def whole_files(catalog: Catalog, paths: Iterable[str]) -> Catalog:
    """Return a catalog of some of its files, each once, without labels or segments."""
    files = dict.fromkeys(paths)
    return catalog_of(table_of(file_rows(catalog)).replaced(paths=files, columns={}, steps=None))


def check_numbers(catalog: Catalog, others: Iterable[Catalog]) -> None:
    """Raise SpecError if classes have other numbers than in a catalog that has them all, for
    example because a class is missing in a validation set. Classes that only partly overlap may
    belong to another dataset: then the log warns."""
    own = {name: number for number, name in enumerate(catalog.classes)}
    for other in others:
        theirs = {name: number for number, name in enumerate(other.classes)}
        moved = [name for name in own if theirs.get(name, own[name]) != own[name]]
        if not moved or catalog.targets is not None or other.targets is not None:
            continue
        name, contains = moved[0], own.keys() <= theirs.keys() or theirs.keys() <= own.keys()
        text = (
            f"the class {name!r} is number {own[name]} in one stream of this client and "
            f"{theirs[name]} in another: make both with the same classes, as in "
            "classes=train.classes, or class_names=train.class_names for a directory"
        )
        if contains:
            raise SpecError(text)
        _log.warning("%s; unless they are different datasets", text)


def check_shapes(catalog: Catalog, spec: SampleSpec) -> None:
    """Raise SpecError if there are points or boxes in a part that the samples do not have, or steps
    of clips that have no moment."""
    table = table_of(catalog)
    for name, column in targets_.named(catalog.targets).items():
        if isinstance(column, targets_.Steps):
            if table.seconds is not None and table.steps is None:
                raise SpecError(
                    f"{name}: Steps are counted in frames: give starts and ends in frames"
                )
            if moment_at(spec.leader) is None:
                raise SpecError(
                    f'{name}: Steps need clips around a moment: sampling="at", or "dense" with '
                    "edges=, and a 0 in offsets"
                )
    for name, column in targets_.marks_in(catalog.targets).items():
        if (of := targets_.part_of(column, spec.clips)) not in spec.clips:
            raise SpecError(
                f"{name} has points or boxes in part {of!r}, and the samples have no such part: "
                f"they have {', '.join(spec.clips)}"
            )
