"""What a stream does before its first batch: it counts windows and frames, and warns of what may be
meant otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.joining import check_shapes
from videoload.clips.sample_spec import GivenSpec, SampleSpec, sample_spec
from videoload.clips.tasks import Count, WindowCount
from videoload.errors import SpecError, VideoError
from videoload.logs import Log
from videoload.plan.options import CheckedOptions
from videoload.plan.plan import Plan
from videoload.plan.windows import Read, check_lengths, counted, warnings_of, with_native_size

_log = Log(__name__)

_TOLD_S = 10.0  # between two lines about how far the counting is


def given_as(catalog: Catalog, clip: GivenSpec, *, shuffle: bool) -> SampleSpec:
    """Return the spec of a stream as it was given to it. Raises SpecError."""
    if not isinstance(catalog, Catalog):
        raise SpecError(f"a stream needs a Catalog, as Catalog.from_folder gives, not {catalog!r}")
    return sample_spec(table_of(catalog).sample_parts, clip, shuffle=shuffle)


def planned(
    catalog: Catalog, spec: SampleSpec, options: CheckedOptions, read: Read, read_sizes: Read
) -> tuple[Catalog, SampleSpec, Plan]:
    """Return the plan of a stream: ``read`` counts windows of videos, or frames of clips of any
    length, if the catalog does not contain them, and ``read_sizes`` finds missing sizes. Log likely
    mistakes. Raises SpecError."""
    check_lengths(catalog, spec, options)
    catalog = counted(catalog, spec, _telling(read), options["buckets"])
    plan = Plan.of(catalog, spec, options)
    if options["balance"] == "class" and (few := np.count_nonzero(catalog.labels < 0)):
        _log.info('%d of %d rows have no label (-1): balance="class" leaves them out', few,
                  len(catalog))  # fmt: skip
    for text in (*warnings_of(catalog, spec, options["buckets"]), plan.left_out()):
        if text:
            _log.warning("%s", text)
    spec = with_native_size(catalog, spec, read_sizes)
    check_shapes(catalog, spec)
    return catalog, spec, plan


def _telling(read: Read) -> Read:
    """Yield the counts of ``read``, and log progress: many files may take minutes."""

    def read_all(task: Count, rows: Catalog) -> Iterator[tuple[int, WindowCount | VideoError]]:
        due = time.monotonic() + _TOLD_S
        for done, found in enumerate(read(task, rows), 1):
            yield found
            if time.monotonic() > due:
                due += _TOLD_S
                _log.warning("the stream is planned by the lengths of its videos, which are read "
                             "once: %d of %d are known", done, len(rows))  # fmt: skip

    return read_all
