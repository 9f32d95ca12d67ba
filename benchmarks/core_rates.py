"""What one core decodes, and what a network has to carry: `python -m benchmarks.core_rates`.

Random clips of files of some usual kinds. Each file is already indexed, and is opened for its clip,
as in a large set. These are the figures of `docs/operate/bottleneck.md`.

    clips/s   of one core
    MB        size of a clip in rgb24
    yuv MB    size of a clip in yuv420p
    Gb/s      network that the clips of one core fill, in rgb24
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from benchmarks.videos import Recipe, make_video
from benchmarks.works import FOLDER
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder

FILES = {
    "UCF-101: MPEG-4 320x240, a key frame every 12": Recipe("mpeg4"),
    "HMDB-51: MPEG-4 320x240, packed B-frames, one key frame": Recipe(
        "mpeg4", frames=95, key_every=600, b_frames=1, packed=True
    ),
    "MPEG-4 1280x720, a key frame every 12": Recipe("mpeg4", 1280, 720),
    "MPEG-4 1920x1080, a key frame every 12": Recipe("mpeg4", 1920, 1080, 90),
    "MJPEG 640x480": Recipe("mjpeg", 640, 480),
    "H.264 320x240, a key frame every 24": Recipe("libx264", key_every=24, b_frames=2),
    "H.264 1280x720, a key frame every 24": Recipe("libx264", 1280, 720, 144, 24, 2),
    "H.264 1280x720, a key frame every 250": Recipe("libx264", 1280, 720, 250, 250, 2),
}
SMALL = vl.ClipSpec(frames=16, stride=2, resize=128, size=(112, 112), sampling="random")
LARGE = vl.ClipSpec(frames=32, stride=2, resize=256, size=(224, 224), sampling="random")
_COPIES = 4  # different files of each kind


def rate(folder: Path, paths: list[str], spec: vl.ClipSpec, seconds: float) -> float:
    """Clips a second of one core."""
    decoder, out = Decoder(folder), np.empty((1, *spec.shape), np.uint8)
    draw = random.Random(0)
    for path in paths:
        decoder.decode(path, spec, [Clip(0)], out)
    clips, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        decoder.rest()  # so that the file is opened again
        decoder.decode(draw.choice(paths), spec, [Clip(draw.getrandbits(32))], out)
        clips += 1
    return clips / took


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=4.0, help="length of each measurement")
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the files are kept")
    given = made.parse_args()
    rows: list[Row] = []
    for name, recipe in FILES.items():
        folder = given.folder / "-".join(map(str, recipe))  # another recipe has other files
        folder.mkdir(parents=True, exist_ok=True)
        paths = [f"{seed}.avi" for seed in range(_COPIES)]
        for seed, path in enumerate(paths):
            if not (folder / path).exists():
                make_video(folder / path, recipe, seed)
        for spec in (SMALL, LARGE):
            clips_per_s = rate(folder, paths, spec, given.seconds)
            yuv = vl.ClipSpec(spec.frames, size=spec.size, pixels="yuv420p").clip_bytes
            rows.append({
                "files": name, "clip": f"{spec.frames}x{spec.shape[1]}x{spec.shape[2]}",
                "clips_per_s": clips_per_s, "mb": spec.clip_bytes / 1e6, "yuv_mb": yuv / 1e6,
                "gbit": 8e-9 * clips_per_s * spec.clip_bytes,
            })  # fmt: skip
    show("one core", rows, {
        "files": "{files}", "clip": "{clip}", "clips/s": "{clips_per_s:.1f}", "MB": "{mb:.2f}",
        "yuv MB": "{yuv_mb:.2f}", "Gb/s": "{gbit:.2f}",
    })  # fmt: skip
    save(given.json, "core_rates", rows, seconds=given.seconds)


if __name__ == "__main__":
    main()
