"""What a complete decode of a file, or of a recording in pieces, tells people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import msgspec
import numpy as np

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import REPORT_BYTES
from videoload.decoding.drawn import DecodedClips
from videoload.decoding.planes import Buffer
from videoload.decoding.videos import Videos
from videoload.errors import VideoError, errors_in
from videoload.reading.complete_decode import Report
from videoload.reading.index import VideoIndex
from videoload.storage.content import fingerprint_text
from videoload.storage.files import Tick
from videoload.storage.paths import pieces_of

_DAMAGE = REPORT_BYTES // 8  # characters: in JSON, most have up to six bytes

ReadFile = Callable[[str, Tick], tuple[VideoIndex, Report]]


def report(videos: Videos, read_file: ReadFile, path: str, out: Buffer, tick: Tick) -> DecodedClips:
    """Write the facts of a video into ``out``, or only its ``damage`` if it cannot be decoded: see
    `SampleSpec`. ``read_file`` decodes a file to its end. Raises StorageError."""
    try:
        facts = _facts(videos, read_file, path, tick)
    except VideoError as error:
        facts = {"damage": error.reason}
    text = msgspec.json.encode(facts | {"damage": facts["damage"][:_DAMAGE]})
    out[...] = 0
    out[:, : len(text)] = np.frombuffer(text, np.uint8)
    return DecodedClips(np.empty((len(out), 0), np.int64))


def _facts(videos: Videos, read_file: ReadFile, path: str, tick: Tick) -> dict[str, Any]:
    files = pieces_of(path)
    found, damage = [], []
    for file in files:
        with errors_in(path, f"piece {file}") if len(files) > 1 else nullcontext():
            index, report = read_file(file, tick)
        found.append((index, report))
        if damaged := "; ".join(_damage(index, report)):
            damage.append(f"{file}: {damaged}" if len(files) > 1 else damaged)
    info = videos.info(path, tick)
    width, height = info.displayed_size(ClipSpec(1))
    return {
        "frames": info.num_frames, "width": width, "height": height,
        "fps": round(float(info.fps), 4), "container": report.container.split(",")[0],
        "codec": report.codec, "pixels": report.pixels,
        "header_frames": sum(report.header_frames for _, report in found),
        "packets": sum(report.packets for _, report in found),
        "key_frames": sum(len(index.order.starts) for index, _ in found),
        "sound": max(videos.audio_codec(file, tick) for file in files), "damage": "; ".join(damage),
        "fingerprint": fingerprint_text(videos.fingerprint(path, 0)),
    }  # fmt: skip


def _damage(index: VideoIndex, report: Report) -> Iterator[str]:
    """What is wrong with a file that can be decoded."""
    if report.refused:
        yield f"{report.refused} of {report.packets} packets cannot be decoded"
    if report.repaired:
        yield f"{report.repaired} frames were repaired"
    if index.info.num_frames != report.frames:
        yield f"{report.frames} of {index.info.num_frames} pictures come out"
