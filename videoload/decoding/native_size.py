"""The size of the clips of a stream whose spec names none."""

from __future__ import annotations

from itertools import islice

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import with_native_parts
from videoload.clips.choices import TRIED_FOR_SIZE
from videoload.clips.clip_spec import at_native_size
from videoload.clips.sample_spec import SampleSpec, Spec, lacks_size
from videoload.decoding.decoder import Decoder
from videoload.errors import SpecError, VideoError


def native_size(catalog: Catalog, spec: Spec) -> Spec:
    """The spec with the size of the catalog's first good video, if it has no size.

    Raises SpecError if the videos are not on this host, VideoError if none can be decoded.
    """
    if not lacks_size(spec):
        return spec
    if isinstance(spec, SampleSpec):
        return with_native_parts(catalog, spec, native_size)
    if catalog.root is None:
        raise SpecError("size=None needs the videos on this host (root=); give size=")
    decoder = Decoder(catalog.root)
    failed = None
    for video in islice(catalog, TRIED_FOR_SIZE):
        try:
            info = decoder.info(video.path)
        except VideoError as error:
            failed = error
            continue
        return at_native_size(spec, *info.shown_size(spec))
    assert failed is not None
    raise failed
