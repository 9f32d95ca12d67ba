"""Everything videoload raises on purpose.

    VideoloadError
    ├── CatalogError        the list of videos and labels cannot be made (also a ValueError)
    ├── SpecError           a ClipSpec, ItemSpec or stream argument out of range, or two that
    │                       contradict each other (also a ValueError)
    ├── TransformError      a transform or load function that cannot be used, or that failed
    ├── StorageError        a bucket or web server that cannot be used, or does not answer
    ├── VideoError          one video cannot be decoded: .path, .reason
    ├── TooManyBadVideos    more of them than the stream accepts: .videos
    ├── ProtocolError       a message that is not of this protocol, or breaks it
    ├── TransportError      an address that cannot be bound or dialled, keys that cannot be used
    ├── WorkerError         workers of this host that cannot be started or do not stay
    └── ClosedError         a stream read after its client was closed

Each message is one line that says what, where and what to do; the command line prints it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class BadVideo(NamedTuple):
    """A video that could not be decoded.

    Attributes:
        path: Relative to the catalog's root.
        reason: What is wrong with it, in a few words.
    """

    path: str
    reason: str


class VideoloadError(Exception):
    """The root of the tree: catch this to catch whatever videoload raises on purpose."""


class CatalogError(VideoloadError, ValueError):
    """The list of videos and labels cannot be made."""


class SpecError(VideoloadError, ValueError):
    """An argument of a ClipSpec or a stream is out of range, or two contradict each other."""


class TransformError(VideoloadError):
    """A transform, or the load function of an ItemSpec, that cannot be imported, is not allowed, or
    failed. Where the mistake is in a load function, the worker's traceback stands below its line.
    """


class VideoError(VideoloadError):
    """One video cannot be decoded: not a video, broken, too short, too small, not there.

    Attributes:
        path: Relative to the catalog's root: str.
        reason: What is wrong with it, in a few words: str.
    """

    def __init__(self, path: str, reason: str) -> None:
        """The message is ``path: reason``.

        Args:
            path: Relative to the catalog's root.
            reason: What is wrong with it, in a few words.
        """
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[VideoError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class OneClipError(VideoError):
    """One clip of a video cannot be decoded, or one item be made; others of it may be sound."""


class StorageError(VideoloadError):
    """The bucket or web server of a root cannot be used, or does not answer."""


class TooManyBadVideos(VideoloadError):  # noqa: N818 - it names a count, not a kind of error
    """More videos cannot be decoded than ``max_bad`` allows.

    Attributes:
        videos: All of them: tuple of `BadVideo`.
        limit: How many are allowed: int.
        total: How many videos the catalog has: int.
    """

    def __init__(self, videos: Sequence[BadVideo], limit: int, total: int) -> None:
        """The message names the first ten.

        Args:
            videos: All of them.
            limit: How many are allowed.
            total: How many videos the catalog has.
        """
        shown = "; ".join(f"{video.path} ({video.reason})" for video in videos[:10])
        more = f"; and {len(videos) - 10} more" if len(videos) > 10 else ""
        allowed = f"max_bad allows {limit}" if len(videos) > limit else "and none is left"
        super().__init__(
            f"{len(videos)} of {total} videos could not be decoded, {allowed}: {shown}{more}"
        )
        self.videos = tuple(videos)
        self.limit = limit
        self.total = total

    def __reduce__(self) -> tuple[type[TooManyBadVideos], tuple[tuple[BadVideo, ...], int, int]]:
        return type(self), (self.videos, self.limit, self.total)


class ProtocolError(VideoloadError):
    """A message that is not of this protocol, or breaks it."""


class TransportError(VideoloadError):
    """An address that cannot be bound or dialled, or keys that cannot be used."""


class WorkerError(VideoloadError):
    """Workers of this host cannot be started, or do not stay."""


class ClosedError(VideoloadError):
    """A stream was read after its client was closed."""
