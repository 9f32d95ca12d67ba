"""What is saved if everything that is taken from a video is decoded in one pass: `python -m
benchmarks.views`.

On one core, in this process, medians over the files of work `ucf`:

    test     ten clips of a video with three crops each, at once and as thirty separate clips
    views    two and four views of a window with crops of their own, at once and as separate clips

And 30-view testing from end to end on all cores: videos a second of a stream, and of a PyTorch
DataLoader with torchcodec in two ways: as its samplers give clips, each resized by PyTorch; and by
hand, each frame decoded and resized (by OpenCV) once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import videoload as vl
from benchmarks.work import Work
from benchmarks.works import FOLDER, load
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder
from videoload.host import cores

_CLIPS, _CROPS = 10, 3
_WARM = 8  # videos


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--videos", type=int, default=96, help="videos in each run of a round")
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = parser.parse_args()
    work, console = load("ucf", given.folder), Console()
    _one_core(work, given.rounds, console)
    _all_cores(work, given, console)


def _testing(work: Work) -> vl.ClipSpec:
    size = (work.clip.crop, work.clip.crop)
    return vl.ClipSpec(
        work.clip.frames, work.clip.stride, resize=work.clip.resize, size=size, crop="three",
        sampling="uniform", clips_per_video=_CLIPS,
    )  # fmt: skip


def _one_core(work: Work, rounds: int, console: Console) -> None:
    test = _testing(work)
    thirty = [Clip(0, clip, crop=crop) for clip in range(_CLIPS) for crop in range(_CROPS)]
    cases = [("10 clips x 3 crops", test, [thirty], test, [[one] for one in thirty])]
    one = replace(
        test, crop="resized", resize=None, flip=True, sampling="center", clips_per_video=1
    )
    for k in (2, 4):
        views = replace(one, views=k)
        cases.append((f"{k} views", views, [[Clip(7)]], one, [[Clip(7 + i)] for i in range(k)]))
    table = Table(title=f"one core, ms a video: {work}")
    for name in ("", "at once", "separately", "separately / at once"):
        table.add_column(name)
    decoder = Decoder(work.root)
    for name, together, at_once, alone, separate in cases:
        spent: tuple[list[float], list[float]] = ([], [])
        for turn in range(-1, rounds):  # the first one warms up
            for file in work.files:
                ways = ((together, at_once), (alone, separate))
                for way in (turn % 2, 1 - turn % 2):
                    seconds = _decode(decoder, file.path, *ways[way])
                    if turn >= 0:
                        spent[way].append(seconds)
        ms = [statistics.median(column) * 1e3 for column in spent]
        table.add_row(name, f"{ms[0]:.1f}", f"{ms[1]:.1f}", f"{ms[1] / ms[0]:.1f}")
    console.print(table)


def _decode(
    decoder: Decoder, path: str, spec: vl.ClipSpec, passes: Sequence[Sequence[Clip]]
) -> float:
    outs = [np.zeros((len(requests), spec.clip_bytes), np.uint8) for requests in passes]
    began = time.perf_counter()
    for requests, out in zip(passes, outs, strict=True):
        decoder.decode(path, spec, requests, out)
    return time.perf_counter() - began


def _all_cores(work: Work, given: argparse.Namespace, console: Console) -> None:
    ways: dict[str, Callable[[Work, int, int], Iterator[Any]]] = {"videoload": _stream}
    if not given.without_torch:
        ways |= {name: _loader(name) for name in _TORCHCODEC}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(given.rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            videos = ways[name](work, given.processes, _WARM + given.videos)
            for video in islice(videos, _WARM):
                assert np.asarray(video).size == 30 * np.prod(work.clip.shape)
            began = time.perf_counter()
            done = sum(1 for _ in videos)
            rates[name].append(done / (time.perf_counter() - began))
    table = Table(title=f"30-view testing, {given.processes} processes")
    for column in ("", "videos/s (median)", "lowest", "highest", "videoload / it"):
        table.add_column(column)
    ours = statistics.median(rates["videoload"])
    for name, found in rates.items():
        median = statistics.median(found)
        table.add_row(
            name, f"{median:.1f}", f"{min(found):.1f}", f"{max(found):.1f}", f"{ours / median:.2f}"
        )
    console.print(table)


def _stream(work: Work, processes: int, videos: int) -> Iterator[npt.NDArray[np.uint8]]:
    catalog = vl.Catalog([file.path for file in work.files], root=work.root)
    views = _CLIPS * _CROPS
    with vl.Client(workers=processes) as client:
        # A batch has as many videos as there are workers, so that a lease is all views of one.
        stream = client.stream(catalog, _testing(work), views * processes)
        batches = stream.batches(epochs=-(-videos // len(work.files)) + 1)
        for clips, _ in islice(batches, -(-videos // processes)):
            yield from clips.reshape(processes, views, *work.clip.shape)


def _loader(name: str) -> Callable[[Work, int, int], Iterator[Any]]:
    def videos(work: Work, processes: int, count: int) -> Iterator[Any]:
        from torch.utils.data import DataLoader

        yield from DataLoader(
            _Videos(work, count, name), batch_size=None, num_workers=processes, prefetch_factor=2
        )

    return videos


class _Videos:
    """A map-style data set: all views of a video."""

    def __init__(self, work: Work, count: int, name: str) -> None:
        self._work, self._count, self._name = work, count, name

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        import torch

        torch.set_num_threads(1)
        file = self._work.files[index % len(self._work.files)]
        return _TORCHCODEC[self._name](self._work, self._work.path(file))


def _by_sampler(work: Work, path: str) -> Any:
    """uint8 [30, T, C, H, W], as the documentation of torchcodec would have it."""
    import torch
    from torch.nn.functional import interpolate
    from torchcodec.decoders import VideoDecoder
    from torchcodec.samplers import clips_at_regular_indices

    clip = work.clip
    decoder = VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="approximate")
    frames = clips_at_regular_indices(
        decoder, num_clips=_CLIPS, num_frames_per_clip=clip.frames,
        num_indices_between_frames=clip.stride,
    ).data.flatten(0, 1)  # fmt: skip
    height, width = frames.shape[-2:]
    size = (clip.resize, round(width * clip.resize / height / 2) * 2)
    small = interpolate(frames, size=size, mode="bilinear", antialias=True)
    top, free = (size[0] - clip.crop) // 2, size[1] - clip.crop
    crops = [
        small[..., top : top + clip.crop, x : x + clip.crop].unflatten(0, (_CLIPS, clip.frames))
        for x in (0, free // 2, free)
    ]
    return torch.stack(crops, 1).flatten(0, 1)


def _by_hand(work: Work, path: str) -> Any:
    """uint8 [30, T, H, W, C], each frame decoded and resized once."""
    import cv2
    import torch
    from torchcodec.decoders import VideoDecoder

    cv2.setNumThreads(1)
    clip = work.clip
    decoder = VideoDecoder(
        path, dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="approximate"
    )
    starts = np.linspace(0, len(decoder) - clip.span, _CLIPS).astype(int)
    wanted = starts[:, None] + np.arange(0, clip.span, clip.stride)
    once, places = np.unique(wanted, return_inverse=True)
    frames = decoder.get_frames_at(once.tolist()).data.numpy()
    height, width = frames.shape[1:3]
    size = (round(width * clip.resize / height / 2) * 2, clip.resize)
    small = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR) for frame in frames])
    clips = small[places.reshape(wanted.shape)]
    top, free = (size[1] - clip.crop) // 2, size[0] - clip.crop
    crops = [clips[:, :, top : top + clip.crop, x : x + clip.crop] for x in (0, free // 2, free)]
    return torch.from_numpy(np.stack(crops, 1).reshape(-1, *clip.shape))


_TORCHCODEC: dict[str, Callable[[Work, str], Any]] = {
    "torchcodec, its sampler": _by_sampler,
    "torchcodec, by hand": _by_hand,
}

if __name__ == "__main__":
    main()
