"""The commands that make batches to look at: flags -> calls."""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videoload.errors import SpecError
from videoload.tools.verbosity import Verbose

if TYPE_CHECKING:
    from videoload import ClipSpec

_CLIP = "frames=16, stride=2, resize=128, size=(112, 112), sampling=random"
_STREAM = "batch_size=8, shuffle=True, seed=0, drop_remainder=False"

Source = Annotated[
    str,
    typer.Argument(
        metavar="DIR|CATALOG",
        help="A folder (or the URL of a folder in a bucket), a CSV file or a UCF-101 split file.",
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


def per_core(what: str, *names: str) -> Any:
    """The option of a number of processes."""
    return typer.Option(*names, min=1, help=what, show_default="one per core")


def preview(
    videos: Source,
    output: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A .png."),
    ] = Path("preview.png"),
    root: CatalogRoot = None,
    table: TableColumns = "",
    classes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The names of the classes: a classInd.txt.")
    ] = None,
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

    Each clip is a row of frames, each below the number of its source frame. Class and file stand
    beside them. Needs Pillow (`pip install pillow`).
    """
    from videoload import Client
    from videoload.catalog import sources
    from videoload.clips import call_text

    spec = parse_clip(clip, _CLIP)
    import_from_here()
    known = [*inspect.signature(Client.stream).parameters][3:]  # behind the clip
    options = call_text.parse(stream, known, "--stream")
    if "batch_frames" not in options:
        options.setdefault("batch_size", 8)
    catalog = sources.load(videos, root, table=table, classes=classes)
    with Client() as client:
        shown = client.stream(catalog, spec, **options)
        clips = shown.preview(output, batches, start_step=step)
    typer.echo(f"{output}: {clips} clips, from step {step}")


def import_from_here() -> None:
    """A user's functions are also found in the working directory, as a script of it finds them."""
    with suppress(FileNotFoundError):  # it was deleted
        sys.path.insert(0, str(Path.cwd()))


def parse_clip(text: str, example: str, **defaults: Any) -> ClipSpec:
    """What ``--clip`` says. Raises SpecError."""
    from videoload import ClipSpec
    from videoload.clips import call_text
    from videoload.clips.clip_spec import say_frames

    given = call_text.parse(text, list(inspect.signature(ClipSpec).parameters), "--clip")
    if not say_frames(given):
        raise SpecError(f"--clip needs frames=, as in {example!r}")
    return ClipSpec(**{**defaults, **given})
