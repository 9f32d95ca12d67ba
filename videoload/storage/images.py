"""A folder of numbered images as one file.

`img_00001.jpg`, `img_00002.jpg`, ... in a folder are the frames of a video, sorted by their number;
frame i is the i-th image. If there are images of several kinds, the path says which, in the words
of FFmpeg: ``folder/flow_x_%05d.jpg``. The width in these words counts for nothing.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from videoload.storage.spans import Range

SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm",
)  # fmt: skip

_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)")  # its last number counts
_PATTERN = re.compile(r"%(?:0?[0-9]+)?d")


class Image(NamedTuple):
    """An image in a folder."""

    name: str
    size: int
    mtime_ns: int


class ImageFolder:
    """A `VideoFile` whose bytes are those of the images, one after the other."""

    fetches = False

    def __init__(self, path: str, folder: str, images: list[Image]) -> None:
        """``path``: the folder, or a pattern in it."""
        self.path = path
        self.folder = folder
        self.names = [image.name for image in images]
        self._ends = [*accumulate(image.size for image in images)]
        self.size = self._ends[-1]
        digest = blake2b(repr(images).encode(errors="surrogateescape"), digest_size=8).digest()
        self.mtime_ns = int.from_bytes(digest, "little") >> 1  # stands for all images
        self.identity: tuple[int, ...] = self.size, self.mtime_ns

    @property
    def first(self) -> str:
        """The file of the first image."""
        return f"{self.folder}/{self.names[0]}"

    def read(self, number: int) -> bytes:
        """The bytes of an image. Raises OSError."""
        return Path(self.folder, self.names[number]).read_bytes()

    def open(self) -> ImageFolder:
        return self

    def close(self) -> None: ...

    def pread(self, length: int, at: int) -> bytes:
        """As `OpenFile.pread`."""
        found = b""
        number = bisect_right(self._ends, at)
        while len(found) < length and number < len(self.names):
            within = at + len(found) - (self._ends[number - 1] if number else 0)
            part = self.read(number)[within:]
            if not part:
                break  # an image is shorter than it was
            found += part[: length - len(found)]
            number += 1
        return found

    def read_block(self, at: int, least: int) -> bytes:
        return self.pread(least, at)

    def ffmpeg_source(self) -> str:
        return self.path

    def was_opened(self) -> None: ...

    def want(self, ranges: Iterable[Range]) -> None: ...

    def want_frames(self, ranges: object, *, opening: bool) -> None: ...

    def check(self) -> None: ...


def folder_and_pattern(path: str) -> tuple[str, str | None]:
    """The folder of a path that is a pattern of images, and the pattern; else the path itself."""
    folder, _, name = path.rpartition("/")
    return (folder, name) if is_pattern(name) else (path, None)


def is_pattern(name: str) -> bool:
    """Whether a name stands for numbered images: ``img_%05d.jpg``."""
    return name.lower().endswith(SUFFIXES) and len(_PATTERN.findall(name)) == 1


def find_images(
    path: str, folder: str, pattern: str | None, is_inside: Callable[[str], bool]
) -> ImageFolder:
    """The images in a folder. ``is_inside``: whether where a link leads may be read. Raises
    ValueError with what is wrong, OSError."""
    found: dict[str, Image] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_image(entry.name) and entry.is_file():
                if entry.is_symlink() and not is_inside(entry.path):
                    raise ValueError(
                        f"its image {entry.name!r} is a link that leads out of the root"
                    )
                status = entry.stat()
                found[entry.name] = Image(entry.name, status.st_size, status.st_mtime_ns)
    names = in_order(found, pattern)
    if not names:
        kind = "numbered images" if pattern is None else f"images named {pattern}"
        raise ValueError(f"is not a file, nor a folder of {kind}")
    return ImageFolder(path, folder, [found[name] for name in names])


def is_image(name: str) -> bool:
    """Whether a name is that of a visible image."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def in_order(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names of images by their numbers: those of a pattern, or all of them. Raises ValueError
    if they are not named alike, or two have the same number."""
    if pattern is not None:
        before, after = map(re.escape, _PATTERN.split(pattern))
        matched = re.compile(f"({before})([0-9]+)({after})").fullmatch
        names = filter(matched, names)
    else:
        matched = _NUMBERED.fullmatch
    numbers: dict[int, str] = {}
    alike: tuple[str, str, str] | None = None
    for name in sorted(names):
        stem, dot, suffix = name.rpartition(".")
        match = matched(name if pattern is not None else stem)
        if match is None:
            raise ValueError(f"its image {name!r} has no number: give a pattern like img_%05d.jpg")
        kind = match[1], match[3], suffix
        number = int(match[2])
        if alike is None:
            alike = kind
        if kind != alike:
            first = next(iter(numbers.values()))
            raise ValueError(
                f"its images {first!r} and {name!r} are not named alike: say which, as in "
                f"{alike[0]}%0{len(match[2])}d{alike[1]}{dot}{alike[2]}"
            )
        if number in numbers:
            raise ValueError(f"its images {numbers[number]!r} and {name!r} have the same number")
        numbers[number] = name
    return [name for _, name in sorted(numbers.items())]
