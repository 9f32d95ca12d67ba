"""The work of a folder: some of its files, each looked at before a loader gets it.

A folder may hold a hundred thousand files, or hours in one. So files are drawn, and the first
frames of each are decoded in order, as long as there is time. What cannot be compared is left out
and counted: a file that libav does not read, one shorter than a clip, and one that players turn or
cut (not every loader does).
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np

from benchmarks.check import Pictures, thin
from benchmarks.work import SEED, Clip, File, Work
from videoload.catalog.catalog import Catalog
from videoload.errors import CatalogError
from videoload.reading.containers import BrokenFileError
from videoload.reading.index import find_index
from videoload.storage.files import Folder

_FILES = 32  # at most: the warm-up of each run visits all of them
_FRAMES = 300  # of a file, at most
_BATCH, _BATCHES_S = 8, 1.0  # clips at most; that all processes make one takes no longer
_TIME_OFF = 0.1  # of a frame, by which a time stamp that was rounded may be off


class _UnfitError(Exception):
    """The file cannot be compared; the message is the reason."""


def choose(
    name: str,
    folder: Path,
    clip: Clip,
    seconds: float,
    kept: Path,
    processes: int,
    say: Callable[[str], None],
) -> Work:
    """The work of what lies below a folder; takes about ``seconds``. Its batches are
    smaller where clips take long. The frames that the check needs go to ``kept``. Raises
    CatalogError if there is no video, or none that is fit."""
    paths = list(Catalog.from_folder(folder, label=None).paths)
    say(f"{len(paths)} videos below {folder}; looking at {min(len(paths), _FILES)} of them")
    random.Random(SEED).shuffle(paths)
    files: list[File] = []
    reasons: Counter[str] = Counter()
    began = time.monotonic()

    def look(path: str) -> File | str:
        try:
            return look_at(folder, path, clip, kept)
        except (av.error.FFmpegError, OSError, ValueError, IndexError, _UnfitError) as error:
            return getattr(error, "strerror", None) or str(error)

    with ThreadPoolExecutor(processes) as pool:  # libav decodes without the interpreter's lock
        for at in range(0, len(paths), processes):
            for found in pool.map(look, paths[at : at + processes]):
                if isinstance(found, File):
                    files.append(found)
                else:
                    reasons[found] += 1
            if len(files) >= _FILES or time.monotonic() > began + seconds:
                break
    clip_s = (time.monotonic() - began) / max(1, sum(file.frames for file in files)) * clip.span
    for reason, count in reasons.items():
        say(f"left out: {count} ({reason})")
    if not files:
        raise CatalogError(
            f"no video below {folder} can be compared: {'; '.join(reasons) or 'there is none'}"
        )
    batch = min(_BATCH, max(1, int(_BATCHES_S / (clip_s * processes))))
    return Work(name, folder, tuple(files[:_FILES]), clip, batch)


def look_at(
    root: Path, path: str, clip: Clip | None = None, kept: Path | None = None, most: int = _FRAMES
) -> File:
    """Decode a file's first frames in order, and try where seeking leads to. With a ``clip``, the
    file must be fit for it, and its frames are kept for the check."""
    keys: list[int] = []
    times: list[tuple[int | None, int | None]] = []  # (pts, dts) of key packets
    frames, timed = 0, True
    pictures: Pictures = []
    if clip and _is_changed_for_display(root, path):
        raise _UnfitError("players turn it or cut it")
    with av.open(str(root / path)) as container:
        if not container.streams.video:
            raise _UnfitError("no video")
        stream = container.streams.video[0]
        stream.codec_context.thread_type = "NONE"
        fps = float(stream.average_rate or 0)
        if not fps:
            raise _UnfitError("no frame rate")
        rate = fps * float(stream.time_base or 1)
        size = stream.codec_context.width, stream.codec_context.height
        file = File(path, stream.codec.name, *size, 0, fps, False, ())
        sure = (
            0  # frames that have their place: what comes last of a part may be in front of others
        )
        for packet in container.demux(stream):
            is_part = packet.size > 0 and frames >= most
            if is_part:
                sure, decoded = frames, stream.codec_context.decode(None)
            else:
                decoded = packet.decode()
                if packet.is_keyframe and packet.size:
                    times.append((packet.pts, packet.dts))
            for frame in decoded:
                if frame.key_frame:
                    keys.append(frames)
                timed = timed and abs((frame.pts or 0) * rate - frames) < _TIME_OFF
                frames += 1
                if clip and kept:
                    pictures.append(thin(frame, file, clip))
            if is_part:
                break
        frames = sure or frames
        del pictures[frames:]
        if not frames or not times:
            raise _UnfitError("no frames")
    # A stray key packet without a picture, and only the file's start can be trusted.
    table = [(0, min(at for at in (*times[0], 0) if at is not None))]
    if len(keys) == len(times):
        for ordinal, key in zip(keys[1:], times[1:], strict=True):
            if ordinal < frames and (at := _sought(str(root / path), key)) is not None:
                table.append((ordinal, at))
    if clip and frames < clip.span:
        raise _UnfitError(f"less than {clip.span} frames")
    place = ""
    if clip and kept:
        with tempfile.NamedTemporaryFile(dir=kept, suffix=".npy", delete=False) as file_of_pictures:
            np.save(file_of_pictures, np.stack(pictures))
        place = file_of_pictures.name
    return File(path, file.codec, *size, frames, fps, timed, tuple(table), place)


def _is_changed_for_display(root: Path, path: str) -> bool:
    try:
        index, opened = find_index(Folder(root).resolve(path), lambda: None)
    except BrokenFileError:
        return False  # the run of this loader says why
    if opened is not None:
        opened.close()
    return index is not None and (
        index.info.quarter_turns > 0 or index.info.mirrored or any(index.info.cut)
    )


def _sought(path: str, key: tuple[int | None, int | None]) -> int | None:
    """Which of its times leads to this key frame, in a file that nothing else was read of: some
    demuxers learn where the key frames are. Some seek by the one, some by the other."""
    for at in key:
        if at is not None:
            with av.open(path) as container:
                container.seek(at, stream=container.streams.video[0])
                packets = container.demux(video=0)
                found = next((packet for packet in packets if packet.is_keyframe), None)
                # Matroska does not tell the dts of every packet.
                if found and (found.dts == key[1] if key[0] is None else found.pts == key[0]):
                    return at
    return None
