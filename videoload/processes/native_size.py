"""The native size of a catalog's videos, looked up in a child process: a file that crashes FFmpeg
must not take the trainer along.

It is the size of the first video that can be decoded, as in `decoding.decoder.native_size`. A file
that ends the child is passed over, and another child goes on with the next file. A file at which
the child falls silent is an error: its storage may be slow just now, and to pass it over would give
the stream another size from one run to the next.
"""

from __future__ import annotations

import logging
from fractions import Fraction
from functools import partial
from itertools import islice

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import with_native_parts
from videoload.clips.choices import TRIED_FOR_SIZE
from videoload.clips.clip_spec import ClipSpec, at_native_size
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.video_info import VideoInfo
from videoload.errors import SpecError, VideoError
from videoload.processes.inspector import WAIT_S, Inspector

_log = logging.getLogger(__name__)


def native_size(
    catalog: Catalog, spec: ClipSpec | SampleSpec, *, silence_s: float, cache: str | None
) -> ClipSpec | SampleSpec:
    """The spec with the size that the catalog's first good video gives it, or each part of it.

    ``cache`` is the folder of an `IndexCache`. Raises SpecError if the catalog has no root;
    VideoError if none of its first videos can be decoded, or one makes no progress for
    ``silence_s``; StorageError if the root does not answer; WorkerError if no process can be
    started.
    """
    if catalog.root is None:
        raise SpecError("size=None needs the videos on this host (root=); give size=")
    if isinstance(spec, SampleSpec):
        of_part = partial(native_size, silence_s=silence_s, cache=cache)
        return with_native_parts(catalog, spec, of_part)
    root, failed, inspector = str(catalog.root), None, None
    try:
        for video in islice(catalog, TRIED_FOR_SIZE):
            if inspector is None:
                inspector = Inspector([root, cache, False], silence_s=silence_s)
            inspector.ask(video.path)
            while (answer := inspector.answer(WAIT_S)) is None:
                pass
            if inspector.hangs:
                raise VideoError(video.path, f"{answer['damage']}; give size=")
            if "width" in answer:
                info = VideoInfo(
                    0, Fraction(0), answer["width"], answer["height"], answer["turns"],
                    Fraction(*answer["aspect"]),
                )  # fmt: skip
                return at_native_size(spec, *info.shown_size(spec))
            failed = VideoError(video.path, answer["damage"])
            if not inspector.is_alive:
                _log.warning("%s", failed)
                inspector.close()
                inspector = None
    finally:
        if inspector is not None:
            inspector.close()
    assert failed is not None
    raise failed
