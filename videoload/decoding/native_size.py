"""The size of the clips of a stream whose spec names none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import with_native_size
from videoload.clips.sample_spec import Spec
from videoload.clips.video_info import VideoInfo
from videoload.decoding.decoder import Decoder
from videoload.errors import VideoError


def native_size(catalog: Catalog, spec: Spec) -> Spec:
    """As `with_native_size`, in this process."""
    return with_native_size(catalog, spec, _look)


def _look(root: str, paths: Sequence[str]) -> Iterator[VideoInfo | VideoError]:
    decoder = Decoder(root)
    for path in paths:
        try:
            yield decoder.info(path)
        except VideoError as error:
            yield error
