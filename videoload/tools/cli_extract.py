"""The command that takes whole recordings through a model: flags -> calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from videoload.errors import SpecError
from videoload.tools.cli_batches import (
    CatalogRoot,
    Source,
    TableColumns,
    import_from_here,
    parse_clip,
    per_core,
)
from videoload.tools.verbosity import Verbose, say, silent

_CLIP = "frames=16, stride=2, hop=8, resize=128, size=(112, 112)"


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
    ] = _CLIP,
    root: CatalogRoot = None,
    table: TableColumns = "",
    batch_size: Annotated[int, typer.Option(min=1, help="Windows in each batch of the model.")] = 8,
    workers: Annotated[int | None, per_core("Worker processes.")] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Also write a CSV of the best classes for each file.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Classes of each window in the CSV.")] = 1,
    classes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The names of the classes, one a line.")
    ] = None,
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
    """Take every window of every file through a model.

    Writes two arrays for each file: OUT/PATH.npy has what the model returned for each window, and
    OUT/PATH.times.npy the seconds of its first and last frame. If it is stopped or killed, the same
    command resumes (with --name, if the model is a function). Exit status 1 if a file cannot be
    decoded.
    """
    from videoload import Client
    from videoload.catalog import sources
    from videoload.decoding.functions import Functions
    from videoload.errors import named
    from videoload.plan import quarantine
    from videoload.tools.predict import predict

    spec = parse_clip(clip, _CLIP, sampling="dense")
    if not all(model.partition(":")):
        raise SpecError(f"--model must be like mymodel:score, got {model!r}")
    import_from_here()
    found = Functions(None).find(model, "model").function
    names = None if classes is None else classes.read_text(encoding="utf-8").splitlines()
    catalog = sources.load(videos, root, table=table)
    with silent(quarantine), Client(workers) as client:
        try:
            done = predict(
                found, client, catalog, spec, batch_size, to_npy=output,
                to_csv=output if csv else None, average=average, top=top, classes=names,
                name=name,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(f"stopped: {output} has what is done")
            raise
    for video in done.failed:
        say(f"videoload: {named(video.path)}: {video.reason}")
    count = len(catalog) - len(done.failed)
    typer.echo(f"{output}: {count} of {len(catalog)} files")
    if done.failed:
        raise typer.Exit(1)
