"""Pauses between attempts, each twice as long as the one before."""


class Backoff:
    """The pauses of one thing that is tried again.

    ``pause_s`` is the last one, or 0 before the first."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self.pause_s = 0.0

    def next_s(self) -> float:
        """Return how long to pause now."""
        self.pause_s = min(2 * self.pause_s or self._first_s, self._max_s)
        return self.pause_s

    def reset(self) -> None:
        """Begin with the first pause again: an attempt worked."""
        self.pause_s = 0.0
