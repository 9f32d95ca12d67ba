"""The command that writes a set of videos again: flags -> calls."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videoload.commands.cli_batches import CatalogRoot, Source, per_core
from videoload.commands.verbosity import Verbose, progress_bar, say
from videoload.errors import VideoloadError

if TYPE_CHECKING:
    from videoload.catalog.catalog import Catalog
    from videoload.preparing.prepare import Prepared

_NAMED = 10  # files that are listed


class Codec(StrEnum):
    """Of the new files."""

    MPEG4 = "mpeg4"
    H264 = "h264"


def prepare(
    videos: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the new files.")],
    root: CatalogRoot = None,
    resize: Annotated[
        int, typer.Option(metavar="PIXELS", help="Short side of the new frames, even.")
    ] = 128,
    gop: Annotated[
        int, typer.Option(metavar="FRAMES", help="From one key frame to the next.")
    ] = 12,
    codec: Annotated[
        Codec, typer.Option(metavar="mpeg4|h264", help="Of the new files.")
    ] = Codec.MPEG4,
    quality: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Less is better: the quantiser of mpeg4, 1 to 31, or the CRF of h264, 0 to 51.",
            show_default="3 for mpeg4, 18 for h264",
        ),
    ] = None,
    workers: Annotated[int | None, per_core("Processes that encode.")] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Write every N-th file only, from file I on (0/4, 1/4, ...), for N hosts that "
            "share OUT. Once all are done, the command without it writes OUT/scan.csv.",
        ),
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Write a set of videos again, at the size that is trained on.

    Small frames are decoded several times as fast, and take less disk. Each new AVI file is
    compared with its source, frame by frame. Sound is left out. Lists and labels are copied, and
    OUT/scan.csv has a row for each file, for `Catalog.from_csv`, with segments in frames. A run
    that was stopped or killed continues where it was. Exit status 1 if a file cannot be decoded:
    the others are written.

    The pixels change: compression loses some of them once more. `--frame-store` of a training
    keeps them as they are.
    """
    from videoload.commands import sources
    from videoload.host import cores
    from videoload.preparing.encoding import Settings
    from videoload.preparing.prepare import TABLE, new_catalog
    from videoload.preparing.prepare import prepare as write
    from videoload.scanning.journal import Journal
    from videoload.scanning.scan import scan

    settings = Settings.of(resize, gop, codec.value, quality)
    catalog = _both_parts(videos) if root is None else None
    catalog = catalog or sources.load(videos, root)
    count = len({video.path for video in catalog})
    used, (at, shards) = workers or cores(), _shard(shard)
    with progress_bar("writing", len(range(at, count, shards))) as advance:
        done = write(catalog, out, settings, processes=used, shard=(at, shards), on_file=advance)
    if not done.files and done.bad:
        raise VideoloadError(f"no video could be written; {done.bad[0][0]}: {done.bad[0][1]}")
    table = None
    others = {
        "targets": catalog.targets is not None, "moments": catalog._table.has_moments,
        "boxes": "box" in catalog._table.columns,
    }  # fmt: skip
    lost = [name for name, there in others.items() if there]
    if not lost and shards == 1:
        table = Journal(out / TABLE)
        with progress_bar("scanning", done.files) as advance:
            fresh = new_catalog(catalog, out, done)
            scan(fresh, processes=used, journal=table, on_row=lambda row: advance())
    _report(done, out, has_table=table is not None, is_shard=shards > 1)
    if lost:
        typer.echo(
            f"no scan.csv, which has no {' and '.join(lost)}: frames have the numbers that they "
            "had, but their times and sizes may be others"
        )
    if done.bad:
        raise typer.Exit(1)


def _shard(text: str | None) -> tuple[int, int]:
    """Raises VideoloadError."""
    at, _, shards = (text or "0/1").partition("/")
    if not (at.isdecimal() and shards.isdecimal() and int(at) < int(shards)):
        raise VideoloadError(f"--shard must be I/N, with I from 0 to N - 1, got {text!r}")
    return int(at), int(shards)


def _both_parts(folder: str) -> Catalog | None:
    """All videos of a folder that has train/ and test/; None if it has not."""
    from videoload.catalog.catalog import Catalog
    from videoload.listings.folders import train_and_test

    if not Path(folder).is_dir() or train_and_test(folder) is None:
        return None
    return Catalog.join(Catalog.train_and_test(folder))


def _report(done: Prepared, out: Path, *, has_table: bool, is_shard: bool) -> None:
    from videoload.scanning.advice import bytes_text

    typer.echo(
        f"{out}: {done.files} files, {done.frames} frames, {bytes_text(done.bytes)} instead of "
        f"{bytes_text(done.source_bytes)}"
    )
    if done.lists:
        typer.echo(f"copied: {', '.join(done.lists[:_NAMED])}")
    if any(each.times is not None for each in done.timing.values()):
        typer.echo("times in seconds mean other frames in files that were uneven: use scan.csv")
    if done.names:
        old, new = next(iter(done.names.items()))
        typer.echo(f"{len(done.names)} files have other names, as {new} for {old}")
    if has_table:
        typer.echo(f'Catalog.from_csv("{out}/scan.csv") has all of them')
    elif is_shard:
        typer.echo("once all shards are there, the same command without --shard writes scan.csv")
    for path, what in done.remarks[:_NAMED]:
        typer.echo(f"{path}: {what}")
    for path, why in done.bad[:_NAMED]:
        say(f"videoload: {path}: {why}")
    for lost in (done.remarks, done.bad):
        if len(lost) > _NAMED:
            say(f"and {len(lost) - _NAMED} more")
