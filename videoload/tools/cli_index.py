"""The command that writes the index of a set: flags -> calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videoload.errors import VideoloadError
from videoload.tools.cli_batches import CatalogRoot, Source, TableColumns, per_core
from videoload.tools.cli_workers import CacheFolder
from videoload.tools.verbosity import Verbose, progress_bar, say

if TYPE_CHECKING:
    from videoload import Catalog


def index(
    videos: Source,
    root: CatalogRoot = None,
    table: TableColumns = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the index here.", show_default="ROOT/.videoload-index"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        per_core("Processes that read.", "--workers", "--processes"),
    ] = None,
    part: Annotated[
        str,
        typer.Option(metavar="K/N", help="Index every N-th file, starting at file K (from 0)."),
    ] = "0/1",
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|URL",
            help="Another index, such as a part that another host wrote. Its files are not read "
            "again. Repeat it for several.",
        ),
    ] = None,
    cache: CacheFolder = None,
    verbose: Verbose = 0,
) -> None:
    """Read all files once, and write an index of them beside them, for all hosts.

    With it, no host reads a large file of a bucket as a whole: only the parts that its clips need.
    Run it again when files were added: it reads those that are new or have changed. A call that was
    stopped resumes where it was.
    """
    from videoload.catalog import sources

    catalog = sources.load(videos, root, table=table, is_labelled=False)
    k, _, n = part.partition("/")
    if not (k.isdecimal() and n.isdecimal() and int(k) < int(n)):
        raise VideoloadError(f"--part {part}: it must be K/N, with K from 0 to N - 1")
    write(
        catalog, out, workers=workers, cache=cache, others=add or (), part=(int(k), int(n))
    )  # fmt: skip


def write(
    catalog: Catalog,
    out: Path | None,
    *,
    workers: int | None,
    cache: Path | None,
    others: list[str] | tuple[()] = (),
    part: tuple[int, int] = (0, 1),
) -> None:
    """Write the index of a catalog's files, and say so. Raises VideoloadError."""
    from videoload.host import cores
    from videoload.tools.indexing import make_index

    with ExitStack() as stack:

        def begin(files: int) -> Callable[[], None]:
            return stack.enter_context(progress_bar("reading", files, "they are kept, and "))

        made = make_index(
            catalog, None if out is None else str(out), processes=workers or cores(),
            cache=cache, others=others, part=part, begin=begin,
        )  # fmt: skip
    for video in made.bad:
        say(f"{video.path}: {video.reason}")
    left_out = f"; {len(made.bad)} cannot be read" if made.bad else ""
    say(f"{made.where}: {made.files} files, of which {made.read} were read{left_out}")
