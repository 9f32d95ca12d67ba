"""The reference: a stream decoded in this process, one clip after the other.

It is short and obviously right. The batches of any stream must equal these byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.client.planning import given_as, planned
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.clips.sample_info import SampleInfo, info_type
from videoload.clips.sample_spec import GivenSpec, SampleSpec, one_clip, with_shape
from videoload.clips.tasks import FoundT_co, TaskOfFiles
from videoload.decoding.decoder import Decoder
from videoload.errors import SpecError, VideoError, fault_of, named
from videoload.logs import Log, is_logged
from videoload.plan.batches import Batch, BatchWithInfo, Clips, Sample, collate, with_digest
from videoload.plan.options import CheckedOptions, StreamOptions, checked_options, takes_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.plan.windows import Lengths, with_native_size
from videoload.storage.cache_directories import CacheDirectories, CacheDirectory
from videoload.storage.roots import index_of

_log = Log(__name__)


@overload
def decode_serially(
    catalog: Catalog,
    clip: ClipSpec,
    batch_size: int | None = None,
    *,
    start_step: int | None = None,
    epochs: int | None = None,
    info: Literal[False] = False,
    frame_store: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    **options: Unpack[StreamOptions],
) -> Iterator[Batch[Clips]]: ...


@overload
def decode_serially(
    catalog: Catalog,
    clip: ClipSpec,
    batch_size: int | None = None,
    *,
    start_step: int | None = None,
    epochs: int | None = None,
    info: Literal[True],
    frame_store: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    **options: Unpack[StreamOptions],
) -> Iterator[BatchWithInfo[Clips]]: ...


@overload
def decode_serially(
    catalog: Catalog,
    clip: GivenSpec,
    batch_size: int | None = None,
    *,
    start_step: int | None = None,
    epochs: int | None = None,
    info: bool = False,
    frame_store: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    **options: Unpack[StreamOptions],
) -> Iterator[Any]: ...


@takes_options
def decode_serially(
    catalog: Catalog,
    clip: GivenSpec,
    batch_size: int | None = None,
    *,
    start_step: int | None = None,
    epochs: int | None = None,
    info: bool = False,
    frame_store: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
    **options: Unpack[StreamOptions],
) -> Iterator[Batch[Any] | BatchWithInfo[Any]]:
    """Yield the batches of a stream, decoded in this process: no workers, no sockets.

    Examples:
        >>> for clips, labels in vl.decode_serially(catalog, clip, batch_size=4, shuffle=True):
        ...     pass

    The reference: ``client.stream(...).batches(start_step, epochs, info=info)`` with the same
    arguments gives the same bytes in the same order. Each clip is decoded when its batch is taken.

    Args:
        catalog: Which videos, which labels. It needs its ``root``.
        clip: How clips are cut from a video; or a dict of them, for a catalog of several parts
            (`Catalog.side_by_side`).
        batch_size: Clips in a batch (B), at least 1. Default None: determined by ``batch_frames``.
        start_step: First batch, counted over all epochs from 0. None, the default: 0.
        epochs: Epoch at whose end to stop, counted from the stream's beginning. None, the default:
            the epoch that ``start_step`` is in.
        info: Add the origin of each batch. Default False.
        frame_store: Folder for scaled frames, as in `Client`. Default None.
        index: The index of the set, as in `Client`. Default None: what lies in the root.
        **options: As in `Client.stream`; ``ordered`` has no effect here.

    Yields:
        (clips, labels): uint8 [B, *clip.shape] and int64 [B]; with ``info`` (clips, labels,
        BatchInfo).

    Raises:
        SpecError: The arguments contradict each other, or the catalog cannot give such clips.
        VideoError: A clip cannot be decoded, with ``on_error="raise"``.
        TooManyBadVideos: More videos are bad than ``max_bad`` allows; or ``clip.size`` is None and
            no video of the catalog has a native size.
        StorageError: The videos' folder is missing, empty or not mounted; or their bucket or web
            server is unusable or not responding.
        TransformError: The transform cannot be imported, or failed.
    """
    own = checked_options(batch_size, **options)
    spec = given_as(catalog, clip, shuffle=own["shuffle"])
    if (root := catalog.root) is None:
        raise SpecError("the catalog has no root: pass root=, the folder of its videos")

    read = partial(run_serially, index=index)
    catalog, spec, plan = planned(catalog, spec, own, read, read)
    kept = CacheDirectory.of(frame_store, None, name="frame_store")
    folders = CacheDirectories(frame_store=kept, index=index_of(index)).beside(root)
    steps = plan.steps(start_step or 0, epochs)
    return _batches(Decoder(root, folders=folders), catalog, spec, plan, own, steps, with_info=info)


def sized(catalog: Catalog, clip: ClipSpec) -> SampleSpec:
    """Return the spec of these clips with the size of the videos, if it has no size. Raises
    VideoError."""
    return with_native_size(catalog, one_clip(clip), run_serially)


def run_serially(
    task: TaskOfFiles[FoundT_co],
    rows: Catalog,
    *,
    index: str | os.PathLike[str] | Literal[False] | None = None,
) -> Iterator[tuple[int, FoundT_co | VideoError]]:
    """Run a task as `Client.run`, in this process and in the order of the rows: its reference."""
    row_of = rows_for_workers(rows, None)
    decoder = Decoder(rows.root or os.curdir, folders=CacheDirectories(index=index_of(index)))
    for row in range(len(rows)):
        try:
            yield row, decoder.run(task, row_of(row))
        except VideoError as error:
            yield row, error


def _batches(
    decoder: Decoder,
    catalog: Catalog,
    spec: SampleSpec,
    plan: Plan,
    options: CheckedOptions,
    steps: range,
    *,
    with_info: bool,
) -> Iterator[Batch | BatchWithInfo]:
    lengths = Lengths(catalog, spec)
    quarantine = Quarantine(catalog, plan, options)
    specs = {shape: with_shape(spec, shape) for shape in plan.sizes}
    row_of = rows_for_workers(catalog, spec)
    scanned, others = table_of(catalog).column("fingerprint"), set[str]()
    try:
        for step in steps:
            planned = plan[step]
            clip, planned = specs[plan.shape_of(planned[0])], quarantine.kept(planned)
            clips = np.empty((len(planned), clip.clip_bytes), np.uint8)
            sample_info = np.empty(len(planned), info_type(clip))
            taken: list[Sample] = []
            for first in planned:
                sample, row = quarantine.replace(first), len(taken)
                while row == len(taken):
                    wanted = Clip(sample.seed, sample.clip, sample.crop, row_of(sample.video))
                    path, known = wanted.row.path, scanned[sample.video]
                    try:
                        _decode(
                            decoder, clip, wanted, clips[row : row + 1], sample_info[row : row + 1]
                        )
                        is_seen = known <= 0 or path in others
                        if not is_seen and decoder.videos.fingerprint(path) != known:
                            others.add(path)
                            if is_logged(len(others)):
                                _log.warning("%s has changed since the scan", named(path))
                        taken.append(sample)
                    except VideoError as error:
                        quarantine.add(sample.video, error.reason, fault_of(error))
                        if quarantine.skips:
                            break
                        sample = quarantine.instead_of(sample)
                        if ended := quarantine.due(step, [*taken, sample], complete=False):
                            raise ended from None
            if ended := quarantine.due(step, taken):
                raise ended
            if taken:
                n = len(taken)
                batch = collate(
                    step, taken, catalog, clip, clips[:n], sample_info[:n], lengths, info=with_info
                )
                yield with_digest(batch) if len(batch) == 3 else batch
    finally:
        for text in lengths.warnings():
            _log.warning("%s", text)


def _decode(
    decoder: Decoder, spec: SampleSpec, wanted: Clip, out: npt.NDArray[np.uint8], info: SampleInfo
) -> None:
    """Decode a clip into ``out``; ``info`` gets what is known of it. Raises VideoError."""
    decoder.start(wanted.row.path, spec, [wanted], out).finish().write_metadata(info)
