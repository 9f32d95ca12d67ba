"""A clock that tests advance by hand."""


class Clock:
    """In the place of `time.monotonic`."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
