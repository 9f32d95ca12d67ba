"""The commands that read videos: flags -> calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from videoload.errors import SpecError, VideoloadError
from videoload.tools.cli_workers import CacheFolder
from videoload.tools.terminal import Verbose, progress_bar, say, silent

if TYPE_CHECKING:
    from videoload import Catalog, ClipSpec

_CLIP = "frames=16, stride=2, resize=128, size=(112, 112), sampling=random"
_WINDOWS = "frames=16, stride=2, hop=8, resize=128, size=(112, 112)"
_ENDLESS = 1 << 30  # epochs
_STREAM = "batch_size=8, shuffle=True, seed=0, drop_remainder=False"

Source = Annotated[
    str,
    typer.Argument(
        metavar="DIR|CATALOG",
        help="A folder (or the URL of a folder in a bucket), shards ('{000..099}.tar', in quotes), "
        "a CSV file or a UCF-101 split file.",
    ),
]
CatalogRoot = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|URL", help="The folder or URL that the catalog's paths are relative to."
    ),
]
TableColumns = Annotated[
    str,
    typer.Option(
        "--table",
        metavar="TEXT",
        help="Arguments of Catalog.from_table, as in your script: path=file, label=behaviour.",
        show_default=False,
    ),
]
ClassesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The names of the classes, one a line, or as in UCF-101's classInd.txt.",
    ),
]


def per_core(what: str, *names: str) -> Any:
    """Return the option of a number of processes."""
    return typer.Option(*names, min=1, help=what, show_default="one per core")


def scan(
    videos: Source,
    root: CatalogRoot = None,
    table: TableColumns = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Write the rows for Catalog.from_table. A stopped scan continues from them. Files "
            "that cannot be decoded go to NAME.bad.csv. NAME.csv.progress lists finished files: "
            "once it is deleted, a later scan overwrites no table.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML",
            help="Write an HTML report: histograms, sample frames of each class, and problems.",
        ),
    ] = None,
    workers: Annotated[int | None, per_core("Processes that decode.")] = None,
    chain: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Treat files whose groups match the same text as one recording: "
            "`(.*)/\\d+\\.avi`. There are no labels then.",
        ),
    ] = None,
    index: Annotated[
        bool,
        typer.Option(
            "--index",
            help="Also write the dataset index beside the videos, like 'videoload index'.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a file is damaged.")
    ] = False,
    cache: CacheFolder = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="List every file; of more than 40, a scan lists only those with problems."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a row for every file, for programs.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Decode every file once and report what it contains.

    Shows codec, size, frame rate, the true number of frames, keyframes and damage; for training,
    hours of video, the buckets that fit their lengths, files that are slow to seek in, classes out
    of balance, duplicates. Training runs on this host use the indexes that it creates.
    """
    from videoload.catalog import sources
    from videoload.host import cores
    from videoload.tools import advice
    from videoload.tools import scan as scanning
    from videoload.tools import scan_report as report

    catalog = sources.load(videos, root, chain, table)
    if html is not None:
        report.check_place(html)
    known = "they are saved" if output else "with --output, they would be saved"
    with progress_bar(
        "decoding", len({video.path for video in catalog}), f"{known}, and "
    ) as advance:
        rows = scanning.scan(
            catalog,
            processes=workers or cores(),
            output=output,
            on_row=advance,
            cache=cache,
        )
    if index:
        _write_index(catalog, None, workers=workers, cache=cache)
    segments = scanning.segments_of(catalog, {row.path: row for row in rows})
    folder = catalog.root if isinstance(catalog.root, Path) else None  # no second download
    copies = advice.groups_of_copies(rows, folder) if folder and (html or not json) else []
    if html is not None:
        shown = count(1)
        with Console(stderr=True).status("pictures") as status:

            def tick() -> None:
                status.update(f"picture {next(shown)}")

            report.write(html, rows, segments, str(catalog.root), folder, copies, tick)
    if json:
        report.print_rows(rows)
    else:
        report.print_scan(rows, segments, output, folder, copies, every=every)
    if strict and any(row.damage for row in rows):
        raise typer.Exit(1)


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
    """Read all files once, and write a shared index beside them.

    With it, hosts read only the needed parts of large files in a bucket. Run it again after files
    were added: it only reads new and changed ones. An interrupted run resumes.
    """
    from videoload.catalog import sources

    catalog = sources.load(videos, root, table=table, is_labelled=False)
    k, _, n = part.partition("/")
    if not (k.isdecimal() and n.isdecimal() and int(k) < int(n)):
        raise VideoloadError(f"--part {part}: it must be K/N, with K from 0 to N - 1")
    _write_index(
        catalog, out, workers=workers, cache=cache, others=add or (), part=(int(k), int(n))
    )  # fmt: skip


def _write_index(
    catalog: Catalog,
    out: Path | None,
    *,
    workers: int | None,
    cache: Path | None,
    others: list[str] | tuple[()] = (),
    part: tuple[int, int] = (0, 1),
) -> None:
    """Write the index of a catalog's files, and print its path. Raises VideoloadError."""
    from videoload.host import cores
    from videoload.tools.indexing import make_index

    with ExitStack() as stack:

        def begin(files: int) -> Callable[[], None]:
            return stack.enter_context(progress_bar("reading", files, "they are saved, and "))

        made = make_index(
            catalog, None if out is None else str(out), processes=workers or cores(),
            cache=cache, others=others, part=part, begin=begin,
        )  # fmt: skip
    for video in made.bad:
        say(f"{video.path}: {video.reason}")
    left_out = f"; {len(made.bad)} cannot be read" if made.bad else ""
    say(f"{made.where}: {made.files} files, of which {made.read} were read{left_out}")


def preview(
    videos: Source,
    output: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A .png."),
    ] = Path("preview.png"),
    root: CatalogRoot = None,
    table: TableColumns = "",
    classes: ClassesFile = None,
    clip: Annotated[
        str, typer.Option(metavar="TEXT", help="Arguments of ClipSpec, as in your script.")
    ] = _CLIP,
    stream: Annotated[
        str, typer.Option(metavar="TEXT", help="Arguments of Client.stream, as in your script.")
    ] = _STREAM,
    step: Annotated[int, typer.Option(min=0, help="The first batch to show.")] = 0,
    batches: Annotated[int, typer.Option(min=1, help="Number of batches to show.")] = 1,
    verbose: Verbose = 0,
) -> None:
    """Draw batches exactly as a trainer gets them.

    Each clip is a row of frames, each below the number of its source frame. Class and file are
    shown beside them. Needs Pillow (`pip install pillow`).
    """
    from videoload import Client, decode_serially
    from videoload.catalog import sources
    from videoload.client import contact_sheet
    from videoload.client.serial import sized
    from videoload.clips import call_text
    from videoload.clips.sample_spec import one_clip

    spec = parse_clip(clip, _CLIP)
    import_from_here()
    known = inspect.signature(Client.stream).parameters.keys() - {
        "self",
        "catalog",
        "clip",
        "slots",
    }
    options = call_text.parse(stream, sorted(known), "--stream")
    if "batch_frames" not in options:
        options.setdefault("batch_size", 8)
    contact_sheet.check(output, one_clip(spec))
    catalog = sources.load(videos, root, table=table, classes=classes)
    drawn = sized(catalog, spec)
    shown = decode_serially(
        catalog, drawn.given, **options, start_step=step, epochs=_ENDLESS, info=True
    )
    clips = contact_sheet.save(output, islice(shown, batches), catalog, drawn)
    typer.echo(f"{output}: {clips} clips, from step {step}")


def extract(
    videos: Source,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A folder for the results.")],
    model: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME",
            help="A Keras model, or a function of a batch of clips (a NumPy array) that returns a "
            "row for each. The module may be in the current folder.",
        ),
    ],
    clip: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Arguments of ClipSpec: the windows, hop frames apart."),
    ] = _WINDOWS,
    root: CatalogRoot = None,
    table: TableColumns = "",
    batch_size: Annotated[int, typer.Option(min=1, help="Windows in each batch of the model.")] = 8,
    workers: Annotated[int | None, per_core("Worker processes.")] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Also write a CSV of the best classes for each file.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Classes of each window in the CSV.")] = 1,
    classes: ClassesFile = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The name of a function: a later run with the same name resumes. A Keras model "
            "is identified by its weights.",
        ),
    ] = None,
    average: Annotated[
        Literal["scores", "softmax"] | None,
        typer.Option(
            metavar="scores|softmax",
            help="Average overlapping windows to a curve: their scores, or the softmax of them.",
        ),
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Run a model on every window of every file.

    Writes two arrays for each file: OUT/PATH.npy contains the model's result for each window, and
    OUT/PATH.times.npy the seconds of its first and last frame. If it is stopped or killed, the same
    command resumes (with --name, if the model is a function). OUT/.npy.progress lists finished
    files: once it is deleted, a later run needs another OUT. Exit status 1 if a file cannot be
    decoded.
    """
    from videoload import Client
    from videoload.catalog import sources
    from videoload.catalog.columns import class_names
    from videoload.decoding.functions import Functions
    from videoload.errors import named
    from videoload.plan import quarantine
    from videoload.tools.predict import predict

    spec = parse_clip(clip, _WINDOWS, sampling="dense")
    if not all(model.partition(":")):
        raise SpecError(f"--model must be like mymodel:score, got {model!r}")
    import_from_here()
    found = Functions(None).find(model, "model").function
    names = None if classes is None else class_names(classes)
    catalog = sources.load(videos, root, table=table)
    with silent(quarantine), Client(workers) as client:
        try:
            done = predict(
                found, client, catalog, spec, batch_size, to_npy=output,
                to_csv=output if csv else None, average=average, top=top, classes=names,
                name=name,
            )  # fmt: skip
        except KeyboardInterrupt:
            how = "the same command resumes"
            if name is None:
                how = "a model with weights resumes by the same command, a function with --name"
            say(f"stopped: {output} contains the finished results; {how}")
            raise
    for video in done.failed:
        say(f"videoload: {named(video.path)}: {video.reason}")
    count = len(catalog) - len(done.failed)
    typer.echo(f"{output}: {count} of {len(catalog)} files")
    if done.failed:
        raise typer.Exit(1)


def import_from_here() -> None:
    """A user's functions are also found in the working directory, as a script of it finds them."""
    with suppress(FileNotFoundError):  # it was deleted
        sys.path.insert(0, str(Path.cwd()))


def parse_clip(text: str, example: str, **defaults: Any) -> ClipSpec:
    """Return the spec of ``--clip``. Raises SpecError."""
    from videoload import ClipSpec
    from videoload.clips import call_text
    from videoload.clips.clip_spec import say_frames

    given = call_text.parse(text, list(inspect.signature(ClipSpec).parameters), "--clip")
    if not say_frames(given):
        raise SpecError(f"--clip needs frames=, as in {example!r}")
    return ClipSpec(**{**defaults, **given})
