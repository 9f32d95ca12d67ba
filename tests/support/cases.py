"""Random streams: a catalog, a spec and options that fit together, drawn by a seed.

A case is drawn of what users can say, not of what is known to work: where a draw is refused, as a
combination that means nothing, the next one is taken. So a new option of a clip or a stream belongs
into one of the functions below, and is then tried with every source, consumer and fault.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import videoload as vl

Drawn = tuple[vl.Catalog, Any, dict[str, Any]]


@dataclass(frozen=True)
class Files:
    """Videos below a root, a folder or a URL: their paths, and how many frames each has."""

    root: Path | str
    frames: dict[str, int]


@dataclass(frozen=True)
class Case:
    """What a stream is made of.

    Attributes:
        kind: The function that drew it.
        catalog: The videos, below the root of the files.
        clip: What `Client.stream` takes as a spec.
        options: All other arguments of `Client.stream`, ``batch_size`` among them.
    """

    kind: str
    catalog: vl.Catalog
    clip: Any
    options: dict[str, Any]


def draw(seed: int, files: Files) -> Case:
    """The case of a seed."""
    r = random.Random(seed)
    while True:
        kind = r.choice(list(KINDS))
        try:
            catalog, clip, options = KINDS[kind](r, files)
        except vl.SpecError:
            continue
        options |= {
            "shuffle": r.random() < 0.7,
            "seed": r.randrange(1000),
            "drop_remainder": r.choice([True, False, False, "repeat"]),
            "max_bad": 1.0,
        }
        if "batch_frames" not in options:
            options["batch_size"] = r.randint(1, 5)
        return Case(kind, catalog, clip, options)


def _pixels(r: random.Random) -> dict[str, Any]:
    """Which part of a frame, and what becomes of it."""
    crop = r.choice(["center", "random", "resized", "pad", "stretch", "three", "five", "center"])
    side = r.choice([24, 32, 40])
    how: dict[str, Any] = {
        "crop": crop,
        "size": r.choice([side, (side, side + 4), (side - 2, side)]),
        "flip": r.random() < 0.5,
        "pixels": r.choice(["rgb24", "rgb24", "gray", "yuv420p"]),
    }
    if crop in ("center", "random", "three", "five") or (crop == "resized" and r.random() < 0.5):
        how["resize"] = r.choice([44, 48, 56])
    if crop in ("center", "random", "pad") and r.random() < 0.5:  # one of several sizes
        how |= {"resize": None, "size": [(24, 40), (32, 32), (30, 40), (40, 24)][: r.randint(1, 4)]}
    if r.random() < 0.3:
        how |= {"jitter": (0.4, 0.3, 0.2, 0.05), "grayscale": 0.3}
    if r.random() < 0.15:
        how["transform"] = "tests.support.transforms:add_noise"
    return how


def _frames(r: random.Random) -> dict[str, Any]:
    """Which frames of a video."""
    sampling = r.choice(["random", "center", "uniform", "dense"])
    how: dict[str, Any] = {"sampling": sampling, "frames": r.choice([1, 3, 4, 8])}
    if r.random() < 0.3:
        how["fps"] = r.choice([7.5, 12.5, 25, 60])
    else:
        how["stride"] = r.choice([1, 2, 3])
    if sampling == "dense":
        how |= {"hop_s": 0.4} if "fps" in how else {"hop": r.choice([3, 7])}
    elif r.random() < 0.3:
        how["clips_per_video"] = r.randint(2, 4)
    if sampling != "dense" and r.random() < 0.3:
        how["align"] = "keyframe"
    if sampling != "dense" and r.random() < 0.2:
        how["views"] = 2
    how["short"] = r.choice(["loop", "hold", "zero", "drop"])
    how["seconds"] = r.choice(["picture", "picture", "file"])
    return how


def _rows(r: random.Random, files: Files) -> list[str]:
    names = list(files.frames)
    return [r.choice(names) for _ in range(r.randint(2, 8))]


def _plain(files: Files) -> vl.Catalog:
    """Each file once, with the class that its folder names."""
    classes = sorted({path.split("/")[0] for path in files.frames})
    labels = [classes.index(path.split("/")[0]) for path in files.frames]
    return vl.Catalog(list(files.frames), labels, classes, files.root)


def files_that_are_missing(r: random.Random, files: Files) -> Drawn:
    """The clips of files, of which some cannot be read: others replace them, or they are left
    out."""
    rows = [name if r.random() < 0.7 else f"{name}.lost.avi" for name in _rows(r, files)]
    catalog = vl.Catalog([*files.frames, *rows], root=files.root, duplicates=True)
    clip = vl.ClipSpec(**_frames(r), **_pixels(r))
    return catalog, clip, {"on_error": r.choice(["substitute", "skip"])}


def whole_videos(r: random.Random, files: Files) -> Drawn:
    """The clips of files, some with their sound."""
    how = _frames(r)
    if "fps" in how and r.random() < 0.5:
        how["audio_rate"] = 8000
    clip = vl.ClipSpec(**how, **_pixels(r))
    balance = clip.sampling != "dense" and clip.short != "drop" and r.random() < 0.2
    return _plain(files), clip, {"balance": "class"} if balance else {}


def parts_of_videos(r: random.Random, files: Files) -> Drawn:
    """Rows that are parts of files, with numbers and points that belong to them."""
    rows = _rows(r, files)
    starts = [r.randrange(files.frames[name]) for name in rows]
    ends = [r.randint(at + 1, files.frames[name]) for at, name in zip(starts, rows, strict=True)]
    catalog = vl.Catalog(rows, root=files.root, starts=starts, ends=ends, duplicates=True)
    if r.random() < 0.3:
        seconds = [r.choice([0, 0.1, 0.25]) for _ in rows]
        catalog = vl.Catalog(rows, root=files.root, starts_s=seconds, duplicates=True)
    xy = np.array([[[r.uniform(0, 60), r.uniform(0, 60)] for _ in range(2)] for _ in rows])
    texts = [[f"{row} {n}" for n in range(1 + row % 3)] for row in range(len(rows))]
    targets = {
        "number": np.arange(len(rows)),
        "points": vl.Points(xy, mirror=[(0, 1)]),
        "text": vl.OneOf(texts),
    }
    how = _pixels(r)
    if r.random() < 0.3:  # boxes: some reach beyond the frame, and some are missing
        corners = [[r.uniform(-9, 40), r.uniform(-9, 40), 70, r.uniform(50, 90)] for _ in rows]
        boxes = [box if r.random() < 0.8 else [np.nan] * 4 for box in corners]
        catalog = vl.Catalog(
            rows, root=files.root, starts=starts, ends=ends, duplicates=True, box=np.array(boxes)
        )
        how |= {"crop": "box", "box_scale": r.choice([1.0, (0.8, 1.6)]), "size": (32, 24)}
    return catalog.with_targets(targets), vl.ClipSpec(**_frames(r), **how), {}


def moments(r: random.Random, files: Files) -> Drawn:
    """Frames around a moment, also beyond the ends, with a number for each frame."""
    rows = _rows(r, files)
    at = [r.randrange(files.frames[name]) for name in rows]
    catalog = vl.Catalog(rows, root=files.root, at=at, duplicates=True)
    track = [np.arange(files.frames[name]) for name in rows]
    offsets = tuple(sorted(r.sample(range(-9, 10), r.choice([1, 3, 5]))))
    clip = vl.ClipSpec(
        offsets=offsets, sampling="at", edges=r.choice(["hold", "zero"]), **_pixels(r)
    )
    targets: dict[str, Any] = {"track": vl.PerFrame(track)}
    if 0 in offsets:
        ends = np.cumsum([len(each) for each in track])
        steps = np.arange(ends[-1]) * 3
        targets["steps"] = vl.Steps(steps, ends - [len(each) for each in track], ends, (-2, 0, 5))
    return catalog.with_targets(targets), clip, {}


def recordings_in_pieces(r: random.Random, files: Files) -> Drawn:
    """Several files as one video."""
    alike = ["walk/gop12.avi", "walk/b_frames.avi", "jump/long.avi"]
    chains = [[r.choice(alike) for _ in range(r.randint(1, 3))] for _ in range(r.randint(2, 4))]
    catalog = vl.Catalog(chains, root=files.root, duplicates=True)
    return catalog, vl.ClipSpec(**_frames(r), **_pixels(r)), {}


def side_by_side(r: random.Random, files: Files) -> Drawn:
    """Two files as one sample."""
    catalog = vl.Catalog.side_by_side(
        x=vl.Catalog(left := _rows(r, files), root=files.root, duplicates=True),
        y=vl.Catalog([r.choice(left) for _ in left], root=files.root, duplicates=True),
        by=r.choice(["time", "frames"]),
    )
    drawn = _pixels(r)
    own: dict[str, Any] = {"size": (16, 16), "crop": drawn["crop"], "pixels": drawn["pixels"]}
    own |= {"resize": 20} if drawn.get("resize") else {}
    if r.random() < 0.3:  # each has frames of its own around the same moment
        moment: dict[str, Any] = {
            "sampling": "dense",
            "hop": r.choice([1, 5]),
            "edges": r.choice(["hold", "zero"]),
        }
        offsets = [tuple(sorted({0, *r.sample(range(-9, 10), r.choice([1, 3]))})) for _ in "xy"]
        x, y = ({**moment, "offsets": each} for each in offsets)
        return catalog, {"x": vl.ClipSpec(**x, **drawn), "y": vl.ClipSpec(**y, **own)}, {}
    lead = vl.ClipSpec(**_frames(r), **drawn)
    frames = r.choice([1, lead.frames, 2 * int(lead.frames)])
    own |= {"size": [(16, 16), (16, 20)]} if not drawn.get("resize") and r.random() < 0.5 else {}
    return catalog, {"x": lead, "y": vl.ClipSpec(frames=frames, **own)}, {}


def mixtures(r: random.Random, files: Files) -> Drawn:
    """Two catalogs with shares of each epoch."""
    names = list(files.frames)
    few = [
        vl.Catalog(r.sample(names, 4), [0, 1, 2, 3], classes, files.root)
        for classes in (["a", "b", "c", "d"], ["c", "d", "e", "f"])
    ]
    mixed = vl.mix({"few": (few[0], 0.7), "more": (few[1], r.choice([0.3, 0.1]))})
    return mixed, vl.ClipSpec(**_frames(r) | {"short": "hold"}, **_pixels(r)), {}


def any_length(r: random.Random, files: Files) -> Drawn:
    """Clips as long as their videos, in batches of like lengths."""
    rate = {"fps": r.choice([7.5, 12.5])} if r.random() < 0.4 else {"stride": r.choice([1, 2, 4])}
    clip: Any = vl.ClipSpec(
        frames="all", max_frames=12, short=r.choice(["hold", "zero", "cut"]),
        long=r.choice(["cut", "thin"]), align=r.choice([None, None, "keyframe"]), **rate,
        **_pixels(r),
    )  # fmt: skip
    options: dict[str, Any] = {"buckets": r.choice([(4, 12), (3, 6, 12), (12,)])}
    if r.random() < 0.4:
        options["batch_frames"] = r.choice([12, 24])
    catalog = _plain(files)
    if r.random() < 0.3:  # some are missing, whose place keeps its shape
        options["on_error"] = r.choice(["substitute", "skip"])
        catalog = vl.Catalog([*files.frames, "lost.avi", "lost too.avi"], root=files.root)
    elif r.random() < 0.4:  # the first frame of each clip, larger
        catalog = vl.Catalog.side_by_side(clip=catalog, first=catalog)
        clip = {"clip": clip, "first": vl.ClipSpec(1, size=[(48, 64), (64, 64)])}
    return catalog, clip, options


KINDS: dict[str, Callable[[random.Random, Files], Drawn]] = {
    kind.__name__: kind
    for kind in (
        whole_videos, parts_of_videos, moments, recordings_in_pieces, side_by_side, mixtures,
        any_length, files_that_are_missing,
    )
}  # fmt: skip
