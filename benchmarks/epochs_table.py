"""The table and the plot of `benchmarks.epochs` for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Row

NAMES = {
    "libav": "bare libav",
    "nothing": "nothing kept",
    "aligned": "nothing kept, windows from keyframes",
    "frames": "frame store",
    "half": "frame store, half of the room",
    "torchcodec": "DataLoader, torchcodec",
    "cache": "tf.data cache(): frozen clips",
}
_COLORS = {
    "libav": "#606060", "nothing": "#8fb4d9", "aligned": "#3f7fbf", "frames": "#d9662b",
    "half": "#e8a882", "torchcodec": "#7a6bb0", "cache": "#b0b0b0",
}  # fmt: skip


def columns(epochs: int, shown: Sequence[int]) -> dict[str, str]:
    """The columns of the table of so many epochs, of which some are shown."""
    rates = [f"clips/s in epoch {shown[0]}", *map(str, shown[1:])]
    sums = [f"CPU s of {shown[0]} epoch", *(f"{number} epochs" for number in shown[1:])]
    later = {f"{epochs // 2 + 1} to {epochs}": "{later_clips_per_s:,.0f}"} if epochs > 1 else {}
    return {
        "": "{name}",
        **{head: f"{{clips_per_s[{n}]:,.0f}}" for head, n in zip(rates, shown, strict=True)},
        **later,
        **{head: f"{{cpu_s[{n}]:,.1f}}" for head, n in zip(sums, shown, strict=True)},
        "disk": "{kept_gb:.2f} GB",
    }


def draw(results: Sequence[Row], file: Path) -> None:
    """Write the plot if matplotlib is installed."""
    works: dict[str, list[Row]] = {}
    for row in results:
        works.setdefault(row["files"], []).append(row)
    try:
        _plot(works, file)
    except ImportError:
        print("no plot: pip install matplotlib")
    else:
        print(f"written: {file}")


def _plot(works: dict[str, list[Row]], file: Path) -> None:
    """The CPU seconds until the end of each epoch, a part for each work."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    size = 1 + 5.6 * len(works), 3.8
    figure, parts = pyplot.subplots(
        1, len(works), figsize=size, layout="constrained", squeeze=False
    )
    for part, (name, rows) in zip(parts[0], works.items(), strict=True):
        ends = []
        for row in rows:
            spent, way = row["cpu_s_so_far"], row["way"]
            style = "--" if way in ("libav", "cache") else "-"
            part.plot(range(len(spent)), spent, style, color=_COLORS[way])
            ends.append((spent[-1], way))
        at, apart = float("-inf"), max(end for end, _ in ends) / 17
        for end, way in sorted(ends):  # names beside the ends of their lines
            at = max(end, at + apart)
            word, beside = NAMES[way], (len(spent) - 1) * 1.02
            part.text(beside, at, word, fontsize=8, va="center", color=_COLORS[way])
        part.set_title(f"{name}: {row['what'].partition(',')[0]}", fontsize=9, loc="left")
        part.set_xlabel("epochs")
        part.set_ylabel("CPU seconds of all processes")
        part.set_xlim(0, len(spent) - 1)
        part.set_ylim(0, None)
        part.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
