"""The versions of FFmpeg and of the code that defines clips. Other versions may find other frames
in a file, or scale them to other pixels. So workers report them when they connect, and caches are
keyed by them.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path

_LIBRARIES = ("libavcodec", "libavfilter", "libavformat", "libswscale")
# The packages whose code determines the frames of a clip, and their pixels and audio.
ROOMS = (
    "bitstreams", "clips", "decoding", "reading", "storage",
)  # fmt: skip

# Of these, the packages that decide what is found out of a file.
INDEX_ROOMS = ("bitstreams", "clips", "reading")


@cache
def code_digest(package: Path = Path(__file__).parent, rooms: tuple[str, ...] = ROOMS) -> str:
    """Return a digest of all files of these rooms in the folder of a package. Our own version does
    not show which code runs: a tree may have been edited."""
    digest = blake2b(digest_size=8)
    for room in rooms:
        for file in sorted((package / room).glob("*.py")):
            content = file.read_bytes()
            digest.update(f"{room} {file.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def index_software() -> str:
    """Return the software that creates indexes: other software may find other frames."""
    return f"{ffmpeg_versions()}, code {code_digest(rooms=INDEX_ROOMS)}"


@cache
def own_version() -> str:
    """Return the version of videoload. No file here may import the front door, which has it."""
    return str(sys.modules["videoload"].__version__)


def ffmpeg_versions() -> str:
    """Return the versions of PyAV and of FFmpeg's libraries, and the kind of processor."""
    import av

    versions = (f"{name} {'.'.join(map(str, av.library_versions[name]))}" for name in _LIBRARIES)
    return f"av {av.__version__}, {', '.join(versions)}, {platform.machine()}"
