"""Clips that a user's transform changes, or makes something else of, once they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from videoload.clips.clip_params import seed_of
from videoload.clips.clip_spec import ClipSpec, clip_shape, decoded_dtype, decoded_shape
from videoload.clips.layouts import array_bytes, as_arrays
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import clip_arrays
from videoload.decoding.prepared import Made, Make
from videoload.pixels.planes import Buffer
from videoload.stopwatch import Stopwatch
from videoload.storage.files import Tick
from videoload.user_code.functions import UserFunction, apply


def prepare_transformed(
    path: str,
    spec: ClipSpec,
    requests: Sequence[Clip],
    out: Buffer,
    transform: UserFunction | None,
    watch: Stopwatch,
    prepare: Callable[[Sequence[Buffer]], Make],
) -> Make:
    """Prepare clips into ``out``. ``prepare`` is called with where each is decoded to: there,
    unless the transform makes something else of it."""
    rows = out.reshape(len(requests) * spec.views, -1)
    if spec.output is not None:
        rows = np.empty((len(rows), array_bytes(decoded_shape(spec), decoded_dtype(spec))), "u1")
    clips = list(as_arrays(rows, decoded_shape(spec), decoded_dtype(spec)))
    make = prepare(clips)
    if transform is None:
        return make
    returned = clip_arrays(spec, out.reshape(len(requests), -1)).reshape(-1, *clip_shape(spec))
    seeds = [seed_of(request.seed, view) for request in requests for view in range(spec.views)]

    def make_it(tick: Tick) -> Made:
        made = make(tick)
        with watch.phase("transform"):
            for at, (seed, clip) in enumerate(zip(seeds, clips, strict=True)):
                tick()
                apply(transform, spec, path, clip, returned[at, ...], seed)  # a number has a place
        return made

    return make_it
