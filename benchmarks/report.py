"""The results: the JSON file, the table, and what its words mean."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import msgspec

from benchmarks.figures import table
from benchmarks.loaders import LIMIT

_HEADINGS = ("loader", "clips/s", "from", "to", "of limit", "CPU ms", "first s", "MB", "wrong")
_LABELS = {  # on the page
    LIMIT: "bare libav, no loader: the limit",
    "videoload without TensorFlow": "**videoload**, `for clips, labels in stream`",
    "videoload": "**videoload**, `stream.dataset()`",
    "videoload tcp": "**videoload**, remote workers (tcp)",
    "DataLoader pyav": "PyTorch DataLoader, our decoding loop",
    "tf.data pyav": "tf.data, our decoding loop",
    "DataLoader torchcodec": "DataLoader, torchcodec",
    "Keras": "Keras PyDataset, our decoding loop",
    "tf.data opencv": "tf.data, OpenCV",
    "DataLoader opencv": "DataLoader, OpenCV",
    "SPDL": "SPDL",
    "serial": "in the training loop",
    "DataLoader decord": "DataLoader, decord",
}
_COLUMNS = {heading: f"{{{heading}}}" for heading in _HEADINGS}


class Row(msgspec.Struct):
    """One run. Its frames were checked if there are ``frames``; in round 0, nothing was timed."""

    work: str
    loader: str
    round: int
    error: str = ""
    not_run: str = ""  # why it cannot be used here
    clips_s: float = 0.0
    first_batch_s: float = 0.0
    cpu_s_a_clip: float = 0.0
    memory: int = 0
    frames: int = 0
    wrong: int = 0


class Results(msgspec.Struct):
    """Everything that a table or a plot needs. ``works`` describes the works."""

    machine: dict[str, str]
    processes: int
    works: dict[str, str] = {}
    rows: list[Row] = []


def _line(loader: str, rows: list[Row], limits: dict[int, float]) -> dict[str, str]:
    """A loader's cells by heading, with ``why`` it has no rate, and ``page``: its share of the
    limit (the limit: its rate) and CPU. The share is the median of each run's rate beside the
    limit's in the same round, since a machine is not equally fast all the time."""
    timed = [row for row in rows if row.clips_s]
    why = next((f"not run: {row.not_run}" for row in rows if row.not_run), "")
    why = why or next((f"failed: {row.error}" for row in rows if row.error), "")
    frames, wrong = sum(row.frames for row in rows), sum(row.wrong for row in rows)
    found = dict.fromkeys(_HEADINGS, "") | {"loader": loader, "why": why, "page": ""}
    found["wrong"] = (
        f"{wrong / frames:.0%}" if wrong else "none" if frames else why.partition(":")[0]
    )
    if timed:
        rates = [row.clips_s for row in timed]
        shares = [row.clips_s / limits[row.round] for row in timed if row.round in limits]
        cpu_ms = 1e3 * median(row.cpu_s_a_clip for row in timed)
        page = f"{median(rates):,.0f} clips/s"
        if shares:
            found["of limit"] = f"{median(shares):.1%}"
            page = page if loader == LIMIT else f"{100 * median(shares):.0f} %"
        found |= {"clips/s": f"{median(rates):.1f}", "CPU ms": f"{cpu_ms:.2f}"}
        found |= {"from": f"{min(rates):.1f}", "to": f"{max(rates):.1f}"}
        found["first s"] = f"{median(row.first_batch_s for row in timed):.2f}"
        found["MB"] = f"{median(row.memory for row in timed) / 1e6:.0f}"
        found["page"] = f"{page}, {cpu_ms:.3g}"
    return found


def tables(results: Results) -> Iterator[str]:
    """Yield one for each work: ``CPU ms`` of a clip, ``first s`` to the first batch, ``wrong``
    frames, and below it why a loader has no rate. Then, of several works, that of the page."""
    page: dict[str, dict[str, str]] = {}
    for work, what in results.works.items():
        runs: dict[str, list[Row]] = {}
        for row in results.rows:
            if row.work == work:
                runs.setdefault(row.loader, []).append(row)
        limits = {row.round: row.clips_s for row in runs.get(LIMIT, []) if row.clips_s}
        lines = [_line(loader, runs[loader], limits) for loader in _LABELS if loader in runs]
        yield f"{work}: {what}; {results.processes} processes\n\n" + table(lines, _COLUMNS)
        yield "".join(f"{line['loader']}: {line['why']}\n" for line in lines if line["why"])
        for line in lines:
            row_of_page = page.setdefault(line["loader"], dict.fromkeys(results.works, ""))
            row_of_page |= {"loader": _LABELS[line["loader"]], work: line["page"]}
    if len(results.works) > 1:
        columns = {"loader": "{loader}"} | {f"`{work}`": f"{{{work}}}" for work in results.works}
        yield table(page.values(), columns)
