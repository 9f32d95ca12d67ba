"""The native size of a catalog's videos, looked up in a child process: a file that crashes FFmpeg
must not take the trainer along.

A file that ends the child is passed over, and another child goes on with the next file. A file at
which the child falls silent is an error: its storage may be slow just now, and to pass it over
would give the stream another size from one run to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from fractions import Fraction

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import with_native_size
from videoload.clips.sample_spec import Spec
from videoload.clips.video_info import VideoInfo
from videoload.errors import VideoError
from videoload.processes.inspector import Inspector, ask_all

_log = logging.getLogger(__name__)


def native_size(catalog: Catalog, spec: Spec, *, silence_s: float, cache: str | None) -> Spec:
    """As `with_native_size`. ``cache`` is the folder of an `IndexCache`. Raises also VideoError if
    a video makes no progress for ``silence_s``; StorageError if the root does not answer;
    WorkerError if no process can be started."""
    inspectors: list[Inspector] = []

    def look(root: str, paths: Sequence[str]) -> Iterator[VideoInfo | VideoError]:
        def start() -> Inspector:
            inspectors.append(Inspector(root, cache, is_complete=False, silence_s=silence_s))
            return inspectors[-1]

        for path, answer in ask_all(paths, 1, start):
            if inspectors[-1].hangs:
                raise VideoError(path, f"{answer['damage']}; give size=")
            if "width" in answer:
                size = answer["width"], answer["height"]
                yield VideoInfo(0, Fraction(0), *size, answer["turns"])
                continue
            failed = VideoError(path, answer["damage"])
            if not inspectors[-1].is_alive:
                _log.warning("%s", failed)
            yield failed

    return with_native_size(catalog, spec, look)
