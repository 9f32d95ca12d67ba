"""The tasks that make no clips: windows are counted, and files reported to people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Video
from videoload.clips.sample_params import common_frames
from videoload.clips.step_times import timeline
from videoload.clips.tasks import MAX_DAMAGE, Count, FileReport, WindowCount
from videoload.clips.windows import count_windows
from videoload.decoding.drawn import fitting, in_part, parts_in
from videoload.decoding.videos import Videos
from videoload.errors import errors_in
from videoload.reading.complete_decode import Report
from videoload.reading.index import VideoIndex
from videoload.storage.content import fingerprint_text
from videoload.storage.files import Tick
from videoload.storage.paths import pieces_of

ReadFile = Callable[[str, Tick], tuple[VideoIndex, Report]]


def count(videos: Videos, task: Count, row: Video, tick: Tick) -> WindowCount:
    """Count the windows of a row. Raises VideoError, StorageError, and FileReplacedError."""
    paths, spec = parts_in(row.path, task.spec)
    infos = {}
    for name, part in paths.items():
        with in_part(row.path, name, part):
            if len(pieces_of(part)) == 1:
                infos[name] = videos.find_file(part, tick)[1].info
            else:
                infos[name] = videos.find_recording(part, tick).pieces.info
    leader, info = spec.leader, infos[spec.leading]
    with fitting(row.path):
        seen, common = timeline(row.steps, info), common_frames(spec, infos, row)
        windows, left = count_windows(leader, seen, common)
        displayed = [infos[name].displayed_size(spec.clips[name]) for name in infos]
        return WindowCount(windows, left, info.shown_size(leader), displayed)


def report(videos: Videos, read_file: ReadFile, path: str, tick: Tick) -> FileReport:
    """Report a video. ``read_file`` decodes a file to its end. Raises as `count` does."""
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
    return FileReport(
        frames=info.num_frames, width=width, height=height,
        fps=round(float(info.fps), 4), container=report.container.split(",")[0],
        codec=report.codec, pixels=report.pixels,
        header_frames=sum(report.header_frames for _, report in found),
        packets=sum(report.packets for _, report in found),
        key_frames=sum(len(index.order.starts) for index, _ in found),
        sound=max(videos.audio_codec(file, tick) for file in files),
        damage="; ".join(damage)[:MAX_DAMAGE],
        fingerprint=fingerprint_text(videos.fingerprint(path, 0)),
        file_bytes=sum(report.file_bytes for _, report in found),
    )  # fmt: skip


def _damage(index: VideoIndex, report: Report) -> Iterator[str]:
    """Yield problems of a file that can be decoded."""
    if report.refused:
        yield f"{report.refused} of {report.packets} packets cannot be decoded"
    if report.repaired:
        yield f"repaired frames: {report.repaired}"
    if index.info.num_frames != report.frames:
        yield f"{report.frames} of {index.info.num_frames} pictures are decoded"
