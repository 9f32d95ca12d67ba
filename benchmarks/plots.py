"""Bars with their spread as PNG, and the table of a work of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.loaders import LIMIT
from benchmarks.report import (
    Results,
    median_beside,
    rates_by_round,
    rows_of,
    summaries,
)

_OTHER = "DataLoader torchcodec"  # the fastest other loader without changes
_NAMES = {  # words of people who have not read the code
    LIMIT: "bare libav, no loader: the limit",
    "videoload tcp": "videoload, over tcp",
    "videoload tcp yuv420p": "videoload, over tcp, 4:2:0",
    "videoload tcp curve": "videoload, over tcp, with keys",
    "DataLoader pyav": "PyTorch DataLoader, our decoding loop",
    "DataLoader pyav usual": "PyTorch DataLoader, PyAV as documented",
    "DataLoader torchcodec": "PyTorch DataLoader, torchcodec",
    "DataLoader opencv": "PyTorch DataLoader, OpenCV",
    "DataLoader decord": "PyTorch DataLoader, decord",
    "tf.data pyav": "tf.data, our decoding loop",
    "tf.data opencv": "tf.data, OpenCV",
    "Keras threads": "Keras PyDataset, our loop, threads",
    "Keras processes": "Keras PyDataset, our loop, processes",
    "serial": "in the training loop, our decoding loop",
}
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # label of the line


def epoch_tables(results: Results) -> Iterator[Table]:
    """Of a work of epochs: the rate of the later epochs, that of the first beside it, and beside
    that of a DataLoader over torchcodec. All rates of the other table are the first epoch's."""
    for work in results.works:
        rows = rows_of(results, work)
        if not any(row.later_clips_s for mine in rows.values() for row in mine):
            continue
        table = Table(title=f"{work}, by epoch", title_justify="left", box=SIMPLE_HEAD)
        for name in ("loader", "later", "1st/later", "x torchcodec"):
            table.add_column(name, justify="left" if name == "loader" else "right")
        others = rates_by_round(rows.get(_OTHER, []))
        for loader, mine in rows.items():
            if timed := [row for row in mine if row.later_clips_s]:
                times = median_beside(timed, others)
                table.add_row(
                    loader,
                    f"{median(row.later_clips_s for row in timed):.1f}",
                    f"{median(row.clips_s / row.later_clips_s for row in timed):.1%}",
                    "" if times is None else f"{times:.2f}",
                )
        yield table


def plots(results: Results, folder: Path) -> Iterator[Path]:
    """One PNG a work: median rates, lines from the lowest to the highest, the limit dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    for work, what in results.works.items():
        found = [told for told in summaries(results, work) if told.timed][::-1]
        if not found:
            continue
        limit = next((told.clips_s for told in found if told.loader == LIMIT), 0.0)
        figure, axes = pyplot.subplots(figsize=(8, 1.1 + 0.34 * len(found)), layout="constrained")
        for place, told in enumerate(found):
            colour = "#b0b0b0" if told.loader == LIMIT else "#8fb4d9"
            axes.barh(place, told.clips_s, 0.72, color="#d9662b" if told.is_ours else colour)
            low, high = min(told.rates), max(told.rates)
            axes.plot([low, high], [place, place], color="black", linewidth=1.2)
            text = f"{told.clips_s:.0f}" if told.clips_s >= 100 else f"{told.clips_s:.1f}"
            text += "" if told.share is None else f"  {told.share:.0%}"
            text += f"  {told.wrong:.0%} wrong frames" if told.wrong else ""
            axes.text(high, place, f" {text}", va="center", fontsize=8, bbox=_PAPER)
        if limit:
            axes.axvline(limit, color="#606060", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(found)), [_NAMES.get(told.loader, told.loader) for told in found])
        axes.set_xlim(0, 1.2 * max(max(told.rates) for told in found))
        axes.set_xlabel(f"clips a second ({results.processes} processes), and share of the limit")
        axes.set_title(f"{work}: {what}", fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        file = folder / f"{work}.png"
        figure.savefig(file, dpi=150)
        pyplot.close(figure)
        yield file
