"""What a run of `tests.faults.chaos` found."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from rich import box
from rich.table import Table

from tests.faults.chaos_script import (
    ALL_AT_ONCE,
    CRASH,
    HANG,
    KILL,
    LEAVE,
    Planned,
)
from tests.support.processes import children_of, descriptors, resident_mb

# If more is held at the end than after the warm-up, that is a leak. The allocator keeps the most
# that strangers and trainer used together: 120 endless messages leave 40 MB, and 40 leave 35.
RSS_MB = 64.0


@dataclass
class Strike:
    """A worker was stopped at ``began`` (s), while it owed clips of batch ``step``; that batch
    arrived ``took_s`` later."""

    kind: str
    local: bool
    began: float
    step: int
    took_s: float | None = None


@dataclass
class Left:
    """What a process holds."""

    descriptors: int
    threads: int
    children: int
    rss_mb: float

    @classmethod
    def now(cls) -> Left:
        """What this process holds."""
        return cls(
            len(descriptors()),
            len(os.listdir("/proc/self/task")),
            len(children_of(os.getpid())),
            resident_mb(),
        )

    def beyond(self, before: Left) -> list[str]:
        """What is held more than before."""
        found = [
            f"{name}: {here} now, {there} before"
            for name, here, there in (
                ("descriptors", self.descriptors, before.descriptors),
                ("threads", self.threads, before.threads),
                ("child processes", self.children, before.children),
            )
            if here > there
        ]
        if self.rss_mb > before.rss_mb + RSS_MB:
            found.append(f"resident: {self.rss_mb:.0f} MB now, {before.rss_mb:.0f} MB before")
        return found


@dataclass
class Report:
    """The settings of a run, and everything that was wrong."""

    batches: int
    epochs: int
    seed: int
    injected: list[tuple[int, str, str]] = field(default_factory=list)  # batch, what, whom
    strikes: list[Strike] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)  # batches
    blamed: list[str] = field(default_factory=list)  # videos that faults from outside made bad
    never: list[Planned] = field(default_factory=list)  # their targets did not come back in time
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    serial_s: float = 0.0
    longest_s: float = 0.0
    pauses: int = 0  # longer than 1 s
    digest: str = ""
    before: Left | None = None
    after: Left | None = None

    def survived(self) -> list[bool]:
        """For each injected fault, whether all batches until the next one (at least 16)
        are right."""
        marks = [batch for batch, _, _ in self.injected] + [self.batches]
        return [
            not any(first <= bad < max(last, first + 16) for bad in self.differing)
            for first, last in pairwise(marks)
        ]

    def tables(self) -> list[Table]:
        """The tables, readable for people and as Markdown."""
        faults = Table(box=box.MARKDOWN, title=None)
        for name in ("fault", "whom", "injected", "survived"):
            faults.add_column(name, justify="left" if name in ("fault", "whom") else "right")
        injected = Counter((what, whom) for _, what, whom in self.injected)
        survived = Counter(
            (what, whom)
            for (_, what, whom), well in zip(self.injected, self.survived(), strict=True)
            if well
        )
        for (what, whom), times in sorted(injected.items()):
            faults.add_row(what, whom, str(times), str(survived[what, whom]))
        faults.add_row("all", "", str(injected.total()), str(survived.total()))
        waits = Table(box=box.MARKDOWN, title=None)
        for name in ("time until its batch came", "whom", "times", "p50 s", "p99 s"):
            waits.add_column(name, justify="left" if name in ("whom",) else "right")
        for kind in (KILL, CRASH, LEAVE, HANG, ALL_AT_ONCE):
            for local in (True, False):
                took = sorted(
                    strike.took_s
                    for strike in self.strikes
                    if strike.kind == kind and strike.local == local and strike.took_s is not None
                )
                if took:
                    waits.add_row(
                        kind, "local" if local else "dialled in", str(len(took)),
                        f"{took[len(took) // 2]:.2f}", f"{took[int(0.99 * len(took))]:.2f}",
                    )  # fmt: skip
        assert self.before is not None
        assert self.after is not None
        rest = Table(box=box.MARKDOWN, title=None)
        rest.add_column("what")
        rest.add_column("found", justify="right")
        for name, value in (
            ("batches (of 4 clips)", f"{self.batches} in {self.epochs} epochs"),
            ("seconds", f"{self.seconds:.0f}"),
            ("seconds of decode_serially", f"{self.serial_s:.0f}"),
            ("SHA-256 equal to decode_serially's", "no" if self.differing else "yes"),
            ("samples lost / doubled", f"{self.lost} / {self.doubled}"),
            ("faults injected", f"{len(self.injected)} of {len(self.injected) + len(self.never)}"),
            ("videos wrongly taken for bad", str(len(self.blamed))),
            ("longest pause between two batches", f"{self.longest_s:.2f} s"),
            ("pauses of more than 1 s", str(self.pauses)),
            ("descriptors", f"{self.before.descriptors} -> {self.after.descriptors}"),
            ("threads", f"{self.before.threads} -> {self.after.threads}"),
            ("child processes", f"{self.before.children} -> {self.after.children}"),
            ("resident", f"{self.before.rss_mb:.0f} -> {self.after.rss_mb:.0f} MB"),
        ):
            rest.add_row(name, value)
        return [rest, faults, waits]
