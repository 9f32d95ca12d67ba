"""What a worker does with each row of a lease, and the results of the tasks that make no clips.
Pure.

    task        gives of each row
    SampleSpec  the pixels of a clip in a slot, and a `SampleInfo`
    Count       a WindowCount
    Report      a FileReport
    Identify    a Fingerprint
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec, counting
from videoload.clips.rows import Natural
from videoload.clips.sample_spec import SampleSpec, transforms_of
from videoload.errors import printable

_MAX_WORD, MAX_DAMAGE = 64, 1024  # characters
_Word = Annotated[str, msgspec.Meta(max_length=_MAX_WORD)]
_Size = tuple[Natural, Natural]  # (width, height)
FOUND_BYTES = 8192  # of a result in a message, at most

if TYPE_CHECKING:
    _Given = ClipSpec | Mapping[str, ClipSpec] | SampleSpec
else:  # as stored and sent
    _Given = SampleSpec


class WindowCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="windows"):
    """What `Count` gives of a row.

    Attributes:
        windows: Windows of ``sampling="dense"``; for clips of any length (``max_frames``), the
            frames of its clip: int.
        left: Frames after the last window: int.
        size: (width, height) of the frames that clips are cropped from, in pixels.
        displayed: (width, height) of the frames of each part, as a player shows them: a list.
    """

    windows: Natural
    left: Natural
    size: _Size
    displayed: Annotated[list[_Size], msgspec.Meta(max_length=FOUND_BYTES // 32)]


class FileReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="report"):
    """The result of `Report` for a row: for its file, or for all its pieces.

    Attributes:
        frames: True frame count.
        width: Of the frames as a player shows them, in pixels.
        height: The same.
        fps: Frames a second: float.
        container: The file format: str.
        codec: Of the pictures.
        pixels: The pixel format, in FFmpeg's words.
        header_frames: How many frames the header claims.
        packets: Coded pictures in the file.
        key_frames: Number of frames at which decoding can begin.
        sound: The codec of its audio; "": it has none.
        damage: What is wrong with it; "": nothing.
        fingerprint: What each copy of the file has in common, as text.
        file_bytes: Of all pieces.
    """

    frames: Natural
    width: Natural
    height: Natural
    fps: float
    container: _Word
    codec: _Word
    pixels: _Word
    header_frames: int
    packets: Natural
    key_frames: Natural
    sound: _Word
    damage: Annotated[str, msgspec.Meta(max_length=MAX_DAMAGE)]
    fingerprint: _Word
    file_bytes: Natural

    def __post_init__(self) -> None:
        if not self.damage.isprintable():  # people will see it
            msgspec.structs.force_setattr(self, "damage", printable(self.damage)[:MAX_DAMAGE])


class Fingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fingerprint"):
    """What `Identify` gives of a row.

    Attributes:
        value: 63 bits that all copies of its files have in common, and other files have not: int.
    """

    value: Natural


Found = WindowCount | FileReport | Fingerprint
FoundT_co = TypeVar("FoundT_co", bound=Found, covariant=True)


class TaskOfFiles(msgspec.Struct, Generic[FoundT_co], frozen=True, forbid_unknown_fields=True):
    """A task that decodes no clips, and returns a ``FoundT_co`` for each row."""

    clip_bytes = 0


class Count(TaskOfFiles[WindowCount], frozen=True, tag="count"):
    """Count the windows of each row, and find the sizes of its frames: a `WindowCount`. Only the
    index of a file is read.

    Attributes:
        clip: How clips are cut from a video, as in `Client.stream`: a ClipSpec, or a dict with a
            spec for each part.
    """

    clip: _Given

    def __post_init__(self) -> None:
        given = self.clip
        if not isinstance(given, SampleSpec):
            given = SampleSpec(dict(given) if isinstance(given, Mapping) else {"": given})
        clips = {name: counting(clip) for name, clip in given.clips.items()}
        spec = SampleSpec(clips, given.by, given.offsets_s)
        msgspec.structs.force_setattr(self, "clip", spec)

    @property
    def spec(self) -> SampleSpec:
        """The fields of ``clip`` that decide how many windows there are."""
        return cast("SampleSpec", self.clip)


class Report(TaskOfFiles[FileReport], frozen=True, tag="report"):
    """Decode each file to its end, and report what it is: a `FileReport`."""


class Identify(TaskOfFiles[Fingerprint], frozen=True, tag="identify"):
    """Find what each copy of a file has in common: a `Fingerprint`. A few bytes of it are read."""


Task = SampleSpec | Count | Report | Identify
_GIVES: dict[type[Any], type[Any]] = {Count: WindowCount, Report: FileReport, Identify: Fingerprint}


def described(task: Task) -> str:
    """Return a task in a few words, for people."""
    return f"clips {task.shape}" if isinstance(task, SampleSpec) else type(task).__name__.lower()


def functions_of(task: Task) -> list[str]:
    """Return the names of the user's functions that a task calls."""
    return transforms_of(task) if isinstance(task, SampleSpec) else []


def found_of(found: Sequence[Found], rows: int, task: Task) -> npt.NDArray[np.object_]:
    """Return the results of so many rows, as a worker sent them. Raises ValueError if the task
    gives no such results."""
    if len(found) != rows or any(type(each) is not _GIVES.get(type(task)) for each in found):
        raise ValueError(f"these are no results of {rows} rows of the task {described(task)}")
    if isinstance(task, Count):
        parts = len(task.spec.clips)
        if any(len(cast("WindowCount", each).displayed) != parts for each in found):
            raise ValueError(f"a row of this task has {parts} parts")
    array = np.empty(rows, object)
    array[:] = found
    return array
