"""The batches of the next pass over a stream. Pure.

Every pass is the next epoch: a loop, an iteration of a dataset, an epoch of a sequence. So a loop
that is left early, as in a trial run or with a limit of batches, trains on other clips the next
time. Frameworks look at a batch or two before they begin; such a peek counts for nothing. With
several ranks, a rank that alone ends a pass early is an epoch ahead from then on. Ranks do not know
of each other, so the log warns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from videoload.logs import Log

_log = Log(__name__)

_COUNTS_AT = 3  # batches; Keras and strategies look at two at most


@dataclass
class EpochCursor:
    """The passes over a stream of ``size`` batches an epoch.

    Attributes:
        start: The step at which the next pass begins.
        length: Batches of each pass. Default None: to the end of the epoch.
        ranks: How many have a share of each epoch.
        step: Number of batches, over all epochs, up to the last one that a pass has taken.
    """

    size: int
    start: int = 0
    length: int | None = None
    ranks: int = 1
    step: int = field(init=False)
    _told: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.step = self.start

    def begin(self) -> Pass:
        """Return the next pass. It is the same one until it has taken enough batches to count."""
        left_at = self.step % self.size if self.step < self.start else 0
        if left_at and self.ranks > 1 and not self._told:
            self._told = True
            _log.warning(
                "a pass was left after %d of %d batches, and the next one is epoch %d: unless all "
                "%d ranks do so, they train on different epochs from now on; to look at batches, "
                "use stream.batches(0, 1)", left_at, self.size, self.start // self.size, self.ranks,
            )  # fmt: skip
        stop = (self.start // self.size + 1) * self.size
        if self.length is not None:
            stop = self.start + self.length
        return Pass(self, range(self.start, stop))

    def go_to(self, step: int) -> None:
        """Have the next pass begin at a step."""
        self.start = self.step = step


@dataclass
class Pass:
    """One pass: its ``steps``, and how many of them were ``count``ed."""

    of: EpochCursor
    steps: range
    count: int = 0

    def taken(self, step: int) -> None:
        """Note that the batch of a step was taken, or was empty. Steps may have any order."""
        self.count += 1
        self.of.step = self.steps.start + self.count
        # Like `zip`, the caller may not request one more than the last.
        if self.count >= min(_COUNTS_AT, len(self.steps)):
            self.of.start = max(self.of.start, self.steps.stop)
