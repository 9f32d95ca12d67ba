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
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm",
)  # fmt: skip

_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)")  # its last number counts
_PATTERN = re.compile(r"%(?:0?[0-9]+)?d")


class ImageFolder:
    """A `VideoFile` whose bytes are those of the images, one after the other."""

    fetches = False
    has_version = True

    def __init__(self, path: str, folder: str, names: list[str], version: bytes) -> None:
        """``path``: the folder, or a pattern in it. ``version``: of the folder, which changes when
        images come, go or are replaced."""
        self.path = path
        self.folder = folder
        self.names = names
        self.version = version

    @cached_property
    def _stats(self) -> list[tuple[int, int, int, int]]:
        """Size, times of change and inode of each image: they take longer than all the names."""
        found = []
        for name in self.names:
            try:
                s = os.stat(f"{self.folder}/{name}")
            except OSError:  # whoever reads it is told
                found.append((0, 0, 0, 0))
            else:
                found.append((s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino))
        return found

    @cached_property
    def _ends(self) -> list[int]:
        return [*accumulate(size for size, *_ in self._stats)]

    @cached_property
    def identity(self) -> bytes:
        """Of the names and of all images."""
        told = repr((self.names, self._stats)).encode(errors="surrogateescape")
        return blake2b(told, digest_size=32).digest()

    @cached_property
    def size(self) -> int:
        """Bytes of all images."""
        return self._ends[-1]

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

    def ffmpeg_source(self) -> str:
        return self.path

    def want(self, ranges: Iterable[tuple[int, int]], *, opening: bool = False) -> None: ...

    def check(self) -> None: ...


def folder_and_pattern(path: str) -> tuple[str, str | None]:
    """The folder of a path that is a pattern of images, and the pattern; else the path itself."""
    folder, _, name = path.rpartition("/")
    return (folder, name) if is_pattern(name) else (path, None)


def is_pattern(name: str) -> bool:
    """Whether a name stands for numbered images: ``img_%05d.jpg``."""
    return name.lower().endswith(SUFFIXES) and len(_PATTERN.findall(name)) == 1


def find_images(folder: str, pattern: str | None, is_inside: Callable[[str], bool]) -> list[str]:
    """The names of the images in a folder, in order. ``is_inside``: whether where a link leads may
    be read. Raises ValueError with what is wrong, OSError."""
    with os.scandir(folder) as entries:
        found = {
            entry.name: entry
            for entry in entries
            if is_image(entry.name) and (entry.is_symlink() or entry.is_file())
        }
    names = in_order(found, pattern)
    for name in names:
        if found[name].is_symlink():
            if not found[name].is_file():  # without it, all frames behind it would move
                raise ValueError(f"its image {name!r} is a link to no file")
            if not is_inside(found[name].path):
                raise ValueError(f"its image {name!r} is a link that leads out of the root")
    if not names:
        kind = "numbered images" if pattern is None else f"images named {pattern}"
        raise ValueError(f"is not a file, nor a folder of {kind}")
    return names


def is_image(name: str) -> bool:
    """Whether a name is that of a visible image."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def in_order(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names of images by their numbers: those of a pattern, or all of them. Raises ValueError
    if they are not named alike, or two have the same number."""
    matched = _NUMBERED.fullmatch
    if pattern is not None:
        before, after = map(re.escape, _PATTERN.split(pattern))
        matched = re.compile(f"({before})([0-9]+)({after})").fullmatch
        names = filter(matched, names)
    numbers: dict[int, str] = {}
    alike: tuple[str, str] | None = None
    for name in sorted(names):
        if (match := matched(name)) is None:
            raise ValueError(f"its image {name!r} has no number: give a pattern like img_%05d.jpg")
        kind, number = (match[1], match[3]), int(match[2])
        alike = alike or kind
        if kind != alike:
            first = next(iter(numbers.values()))
            raise ValueError(
                f"its images {first!r} and {name!r} are not named alike: say which, as in "
                f"{alike[0]}%0{len(match[2])}d{alike[1]}"
            )
        if number in numbers:
            raise ValueError(f"its images {numbers[number]!r} and {name!r} have the same number")
        numbers[number] = name
    return [name for _, name in sorted(numbers.items())]
