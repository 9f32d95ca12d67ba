"""The figures of a client for its live page and ``videoload top``, bounded in size and number."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from videoload.engine.stats import ClientRecord, SlowFile, StreamRecord
from videoload.errors import BadVideo, named

WINDOW_S = 10.0  # the figures of a stream and the shares of a worker cover the last seconds
_WORKERS, MAX_STREAMS, _FILES = 256, 16, 8  # of each at most: 110 kB
_TEXT = 120  # characters of a reason or a path, from the end of a path
_NAME, _FILE = 256, 60


def shortened(record: ClientRecord) -> ClientRecord:
    """Return a record with at most `_WORKERS` workers, and with short texts."""
    workers = tuple(
        replace(
            worker, name=worker.name[:_TEXT], last_error=worker.last_error[: _FILE + _TEXT],
            file=named(worker.file)[-_FILE:],
        )
        for worker in record.workers[:_WORKERS]
    )  # fmt: skip
    return replace(
        record, trainer=record.trainer[:_NAME], workers=workers,
        streams=tuple(map(_shortened, record.streams)), more=len(record.workers) - len(workers),
        refused=tuple(reason[:_TEXT] for reason in record.refused),
    )  # fmt: skip


def without_paths(record: ClientRecord) -> ClientRecord:
    """Return a record without the names of files, and without texts that may hold some."""
    return replace(
        record,
        workers=tuple(replace(worker, file="", last_error="") for worker in record.workers),
        streams=tuple(
            replace(
                stream, changed_files=(),
                stats=replace(
                    stream.stats, bad_videos=(), slowest_files=(),
                    verdict="" if stream.stats.bottleneck == "storage" else stream.stats.verdict,
                ),
            )
            for stream in record.streams
        ),
        has_paths=False,
    )  # fmt: skip


def _shortened(record: StreamRecord) -> StreamRecord:
    stats = record.stats
    shown = replace(
        stats,
        workers=(),
        bad_videos=tuple(
            BadVideo(named(video.path)[-_TEXT:], video.reason[:_TEXT])
            for video in stats.bad_videos[-_FILES:]
        ),
        bad_rows=stats.bad_rows[-_FILES:],
        slowest_files=tuple(
            SlowFile(named(file.path)[-_TEXT:], file.clips, file.clip_s)
            for file in stats.slowest_files
        ),
    )
    return replace(
        record, what=record.what[:_TEXT], stats=shown,
        changed_files=tuple(named(path)[-_TEXT:] for path in record.changed_files),
    )  # fmt: skip


def packed(record: ClientRecord) -> bytes:
    """Return a record for ``videoload top``: unlike JSON, it has what is infinite."""
    return msgspec.msgpack.encode(record)


def unpacked(body: bytes) -> ClientRecord:
    """Reverse `packed`. Raises ValueError."""
    return msgspec.msgpack.decode(body, type=ClientRecord)


def as_json(record: ClientRecord) -> str:
    """Return a record for programs. What is infinite is null."""
    return msgspec.json.format(msgspec.json.encode(record)).decode()
