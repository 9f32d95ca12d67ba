"""Which videos of a stream cannot be decoded, their substitutes, and when they are too many.

The substitute for a sample follows from (seed, epoch, sample) alone. That a video is known to be
bad only saves trying it again: the trial would fail and lead to the same substitute.
"""

from __future__ import annotations

import logging

from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoError
from videoload.spec.catalog import Catalog
from videoload.spec.plan import Plan, Sample, StreamOptions

_log = logging.getLogger(__name__)
_ALWAYS_ALLOWED = 3  # in a small catalog one per cent is less than one video


class Quarantine:
    """The bad videos of one stream."""

    def __init__(self, catalog: Catalog, plan: Plan, options: StreamOptions) -> None:
        self._catalog = catalog
        self._total = len(catalog)
        self._plan = plan
        self._raise = options.on_error == "raise"
        self._limit = max(_ALWAYS_ALLOWED, int(options.max_bad * len(catalog)))
        self._avoided: set[int] = set()  # catalog indices: bad videos, and those dropped as short
        self._reasons: dict[str, str] = {}

    @property
    def videos(self) -> list[BadVideo]:
        """The bad videos, in the order in which they were found."""
        return [BadVideo(path, reason) for path, reason in self._reasons.items()]

    def add(self, video: int, reason: str, *, dropped: bool = False) -> None:
        """Note that catalog entry ``video`` cannot be decoded; ``dropped``: it is short, and the
        spec says "drop". Raises VideoError (on_error="raise") or TooManyBadVideos."""
        self._avoided.add(video)
        if not dropped:
            path = self._catalog[video].path
            if self._raise:
                raise VideoError(path, reason)
            if path not in self._reasons:
                self._reasons[path] = reason
                _log.warning("bad video %s: %s; other clips stand in for it", path, reason)
            if len(self._reasons) > self._limit:
                raise TooManyBadVideos(self.videos, self._limit, self._total)
        if len(self._avoided) == self._plan.videos:
            if self._reasons:
                raise TooManyBadVideos(self.videos, self._limit, self._total)
            raise SpecError(f'short="drop" leaves none of {self._total} videos: {reason}')

    def replace(self, sample: Sample) -> Sample:
        """The sample itself, or the first of its substitutes that is not known to be bad."""
        while sample.video in self._avoided:
            sample = self._plan.substitute(sample)
        return sample
