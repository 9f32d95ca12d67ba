"""The provenance of a row's results. A later run may have another model, or another file under the
same name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.msgpack import encode
from xxhash import xxh3_64_hexdigest

from videoload import Catalog, Client, ClipSpec, Identify
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.catalog.joining import whole_files
from videoload.clips.sample_spec import one_clip
from videoload.errors import VideoError
from videoload.storage.paths import pieces_of
from videoload.tools.journal import Provenance


def provenances_of(
    client: Client | None,
    catalog: Catalog,
    spec: ClipSpec,
    names: Sequence[str],
    model: str | None,
) -> dict[str, Provenance]:
    """Return the provenance of each row, by its name. Without a client, no results are kept."""
    if client is None:
        return dict.fromkeys(names, Provenance(None))
    found, row_of, files = {}, rows_for_workers(catalog, one_clip(spec)), dict[str, int]()
    if catalog.root is not None:
        rows = whole_files(catalog, catalog.paths)
        for row, each in client.run(Identify(), rows):
            if not isinstance(each, VideoError):
                files[rows.paths[row]] = each.value
    for row, (name, path) in enumerate(zip(names, catalog.paths, strict=True)):
        told = row_of(row)
        of = told.boxes + (b"" if told.steps is None else encode(told.steps))
        if of or len(pieces_of(path)) > 1:
            of += path.encode("utf-8", "surrogateescape")
        found[name] = Provenance(model, files.get(path), xxh3_64_hexdigest(of) if of else "")
    return found
