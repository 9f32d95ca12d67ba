"""Everything videoload raises on purpose.

    VideoloadError
    ├── CatalogError        the list of videos and labels is invalid (also a ValueError)
    ├── SpecError           an argument of a ClipSpec or stream is out of range, or contradicts
    │                       another one (also a ValueError)
    ├── TransformError      a transform cannot be used, or failed
    ├── StorageError        a bucket or web server is unusable or not responding, or a folder is
    │                       not mounted
    ├── VideoError          one video cannot be decoded: .path, .reason
    ├── TooManyBadVideos    more videos cannot be decoded than the stream accepts: .videos
    ├── ProtocolError       a message does not follow the protocol
    ├── TransportError      an address or keys cannot be used
    ├── WorkerError         workers cannot be started, keep exiting, or do not connect in time
    └── ClosedError         a stream was read after its client was closed

Each message is one line: what is wrong, where, and what to do. The command line prints it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import NamedTuple

_log = logging.getLogger(__name__)

# What moves a terminal's cursor, breaks a line or turns the direction of text around.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return ``text`` in one line, with escapes such as ``\\x1b`` in place of control characters.

    File names, class names and host names may contain any characters. Use it for what a terminal or
    a log shows.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def named(path: str) -> str:
    """Return the path of a video in one line, or the paths of a sample's files, which have a line
    each. A last line that begins with a slash has their offsets. Of a recording in many pieces, the
    first and the last one."""
    files, _, offsets = path.partition("\n/")
    late = f" (offsets {offsets} s)" if offsets else ""
    shown = []
    for file in files.split("\n"):
        first, *others = file.split(" // ")
        many = f" // ... // {others[-1]} ({len(others) + 1} pieces)" if len(others) > 1 else ""
        shown.append(first + many if many else file)
    return printable(" + ".join(shown) + late)


def count(number: int, noun: str, plural: str = "s") -> str:
    """Return ``1 worker``, ``2 workers``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def some(names: Sequence[str]) -> str:
    """Return the first five names."""
    return ", ".join(names[:5]) + (f", ... {len(names) - 5} more" if len(names) > 5 else "")


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Raise every error inside the ``with`` as a VideoError of this path: FFmpeg, PyAV and our
    maths raise all kinds of errors for unforeseen files."""
    try:
        yield
    except (VideoloadError, FileReplacedError):
        raise
    except Exception as error:
        with suppress(Exception):  # a handler may raise, and `logs` imports this file
            _log.exception("%s", named(path))
        raise VideoError(path, f"{type(error).__name__}: {error}") from error


@contextmanager
def errors_in(path: str, part: str) -> Iterator[None]:
    """Raise errors of a part as errors of this path, with the name of the part."""
    try:
        yield
    except VideoError as error:
        raise type(error)(path, f"{part}: {error.reason}") from None


class BadVideo(NamedTuple):
    """A video that could not be decoded.

    Attributes:
        path: Relative to the catalog's root; of a sample of several files, a line for each of them.
        reason: What is wrong with it, in a few words.
    """

    path: str
    reason: str


class Fault(Enum):
    """What is to blame if a worker could not make a clip."""

    VIDEO = "video"  # no clip of this video can be decoded
    CLIP = "clip"  # other clips of the video may be fine
    SHORT = "short"  # the video is shorter than a clip, with short="drop"
    FUNCTION = "function"  # the user's function failed: the stream cannot continue
    CODE = "code"  # this worker does not have the function: others may have it
    COPY = "copy"  # this worker's copy of the file is missing, or another one
    UNREAD = "unread"  # the file may well be there, and cannot be read now
    AWAY = "away"  # ... nor can any other file of the root
    REWRITTEN = "rewritten"  # many videos are not where they were listed: the stream ends


class VideoloadError(Exception):
    """The root of the tree: catch it to catch everything that videoload raises on purpose."""


class CatalogError(VideoloadError, ValueError):
    """The list of videos and labels is invalid."""


class SpecError(VideoloadError, ValueError):
    """An argument of a ClipSpec or a stream is out of range, or two contradict each other."""


class TransformError(VideoloadError):
    """A transform cannot be imported, is not allowed, or failed."""


class WorkersCodeError(TransformError):
    """A function cannot be used in this worker: its module is missing, not allowed, or another
    version. Other workers may have it."""


class VideoError(VideoloadError):
    """One video cannot be decoded: it is not there, not a video, broken, too short or too small.

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
        super().__init__(f"{named(path)}: {printable(reason)}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[VideoError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class UnreadableError(VideoError):
    """A file may well be there, and cannot be read now."""


class OtherCopyError(VideoError):
    """The file that a worker has is missing, or another one than the training uses."""


class OneClipError(VideoError):
    """One clip cannot be decoded. Others of the same video may be good."""


class ShortVideoError(VideoError):
    """The video is shorter than a clip, with ``short="drop"``."""


class StorageError(VideoloadError):
    """The bucket or web server of a root is unusable or not responding, or a folder is not
    mounted."""


class RewrittenError(StorageError):
    """A file that holds many videos is not the one that they were listed from."""


_FAULTS = {  # a subclass before its base
    WorkersCodeError: Fault.CODE, TransformError: Fault.FUNCTION,
    RewrittenError: Fault.REWRITTEN, StorageError: Fault.AWAY,
    ShortVideoError: Fault.SHORT, OneClipError: Fault.CLIP, OtherCopyError: Fault.COPY,
    UnreadableError: Fault.UNREAD,
}  # fmt: skip


def fault_of(error: Exception) -> Fault:
    """Return what is to blame if an error was raised while a clip was made."""
    found = (fault for kind, fault in _FAULTS.items() if isinstance(error, kind))
    return next(found, Fault.VIDEO)


class TooManyBadVideos(VideoloadError):  # noqa: N818 - it names a count, not a kind of error
    """More videos cannot be decoded than ``max_bad`` allows.

    Attributes:
        videos: The bad videos: tuple of `BadVideo`.
        limit: How many bad videos are allowed: int.
        total: How many videos the catalog has: int.
    """

    def __init__(self, videos: Sequence[BadVideo], limit: int, total: int) -> None:
        """The message names the first ten.

        Args:
            videos: The bad videos.
            limit: How many bad videos are allowed.
            total: How many videos the catalog has.
        """
        shown = "; ".join(f"{named(video.path)} ({video.reason})" for video in videos[:10])
        more = f"; and {len(videos) - 10} more" if len(videos) > 10 else ""
        allowed = f"max_bad allows {limit}" if len(videos) > limit else "and none is left"
        super().__init__(
            f"{len(videos)} of {total} videos could not be decoded, {allowed}: "
            f"{printable(shown)}{more}"
        )
        self.videos = tuple(videos)
        self.limit = limit
        self.total = total

    def __reduce__(self) -> tuple[type[TooManyBadVideos], tuple[tuple[BadVideo, ...], int, int]]:
        return type(self), (self.videos, self.limit, self.total)


class FileReplacedError(Exception):
    """A file is not the one that was opened, indexed or drawn for. `retry_if_replaced` catches it.

    Attributes:
        what: What has to be looked at again: the path of the file, or a part of what is known of
            it.
    """

    def __init__(self, what: str = "") -> None:
        """Default "": set later."""
        super().__init__(what)
        self.what = what


class ProtocolError(VideoloadError):
    """A message does not follow the protocol."""


class TransportError(VideoloadError):
    """An address cannot be bound or reached, or keys cannot be used."""


class WorkerError(VideoloadError):
    """Workers of this host cannot be started, or keep exiting; or too few connected in time."""


class ClosedError(VideoloadError):
    """A stream was read after its client was closed."""
