"""Choose the frames of a clip, and their crop.

A clip must be the same on every worker. So each choice is a pure function of the spec, the video
(frame count, rate, size) and one integer seed, which the plan derives from (seed, epoch, clip). The
draws have one fixed order, even if the spec does not use them all: switching the flip on does not
move the windows. Further views, the frames of ``span="video"`` and the colors have their own
generators.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.choices import FROM_SCALED, WHOLE_FRAME, UnfitError
from videoload.clips.clip_spec import (
    ClipSpec,
    covering,
    height_and_width,
    least_and_most,
    pixel_format,
    recolors,
    sizes_of,
)
from videoload.clips.colors import Colors, draw_colors
from videoload.clips.moments import Ints
from videoload.clips.regions import (
    Draw,
    Rectangle,
    Size,
    box_region,
    corner,
    generator,
    inside,
    is_inside,
    letterbox,
    mirrored_back,
    resized,
    resized_region,
    scaled_size,
    shown_box,
    turned_back,
)
from videoload.clips.rows import Clip, Video, box_of
from videoload.clips.step_times import frames_at, timeline
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import frames_in, frames_of, moment_in

# Seeds have 64 bits. The bits above them select a generator.
_ONE_BOX = 16  # bytes
_VIEW, _COLORS = 1 << 64, 1 << 129


class ClipParams(NamedTuple):
    """The frames and crop of a clip.

    ``frame_indices`` are the numbers of its source frames, int64 [T], as `edges` has them.
    ``region`` (x, y, width, height) of each is scaled to ``scaled`` (width, height). ``part`` (x,
    y, width, height) of the scaled frame is cut out, scaled to ``size`` (width, height) if it has
    another size, rotated clockwise ``turns`` times by 90 degrees, and flipped if ``flip``. ``seed``
    is for the transform. The result begins at ``place`` (x, y) in a black frame of the clip; None:
    it is that frame. Without ``colors``, they are those of the video.

    With ``resize``, the whole frame is scaled, so what is scaled does not depend on what was drawn.
    """

    frame_indices: npt.NDArray[np.int64]
    region: Rectangle
    scaled: Size
    part: Rectangle
    size: Size
    turns: int
    flip: bool
    seed: int
    place: Size | None = None
    colors: Colors | None = None


class RandomParams(NamedTuple):
    """The random choices of a clip. The parts of a sample have it in common, but for the frames.

    ``frame_indices`` are the numbers of its source frames, or steps. It is flipped if ``mirror``. A
    random crop begins at the shares ``across`` and ``down`` of the possible range; ``crop`` is the
    number of the crop, of several. ``region`` is scaled to the clip's size, in a frame of the size
    ``of``.
    """

    frame_indices: npt.NDArray[np.int64]
    mirror: bool
    across: float
    down: float
    crop: int
    region: Rectangle
    of: Size
    seed: int


def clip_params(spec: ClipSpec, video: VideoInfo, clip: Clip, view: int = 0) -> ClipParams:
    """Decide a clip of a video. ``view``: its number in its sample. Raises UnfitError."""
    draws = draw_params(spec, video, frames_in(spec, clip.row, video), clip, view)
    frames = frames_at(clip.row.steps, 0, video, draws.frame_indices)
    return shown(spec, video, draws._replace(frame_indices=frames))


def seed_of(seed: int, view: int) -> int:
    """Return the seed of one of the views of a clip."""
    return seed + view * _VIEW


def draw_params(
    spec: ClipSpec, video: VideoInfo, window: tuple[int, int], clip: Clip, view: int
) -> RandomParams:
    """Return the random choices of a clip of the frames [first, last) of the video, or of these
    steps of its row. Raises UnfitError."""
    own = seed_of(clip.seed, view)
    draw = generator(own)
    at, mirror, across, down = draw(), draw(), draw(), draw()
    moment = moment_in(spec, clip.row, video, window) if spec.sampling == "at" else 0
    steps = clip.row.steps
    seen = timeline(steps, video, with_keys=spec.align is not None)
    frames = frames_of(spec, seen, window, clip.clip, own, at, moment)
    of = scaled_size(*video.shown_size(spec), spec.resize)
    region = (0, 0, *of)
    if spec.crop == "box":
        shown = frames_at(steps, 0, video, frames)
        region = _around(spec, video, clip.row, shown, of, draw)
    elif spec.crop == "resized":
        region = resized_region(of, spec.area, spec.ratio, draw)
    return RandomParams(
        frames, spec.flip and mirror < 0.5, across, down, clip.crop, region, of, own
    )


def shown(spec: ClipSpec, video: VideoInfo, draws: RandomParams) -> ClipParams:
    """Return the frames and crop of a clip with these random choices. Raises UnfitError."""
    whole, size = video.shown_size(spec), height_and_width(spec)[::-1]
    region, scaled, part = (0, 0, *whole), scaled_size(*whole, spec.resize), (0, 0, *size)
    place, wide, seen = None, size[0], whole
    is_even = pixel_format(spec).is_halved
    if sizes_of(spec):
        seen = video.displayed_size(spec)
        scaled = covering(seen, size)
    if spec.crop in WHOLE_FRAME:
        if spec.crop == "pad":
            size, place = letterbox(seen, size, even=is_even)
        scaled, part = size, (0, 0, *size)
    elif spec.crop in FROM_SCALED:
        wanted = resized(draws.region, draws.of, scaled)
        part, size, place = inside(wanted, scaled, size, even=is_even)
        # A chroma sample spans two pixels: half of one at the end would be stretched to a whole.
        part = (*part[:2], part[2] & ~1 or 1, part[3] & ~1 or 1)
        if place and draws.mirror:  # black borders are flipped as well
            place = wide - size[0] - place[0], place[1]
        if spec.resize is None:  # then the region is scaled once, from the source frame
            region, scaled, part = part, size, (0, 0, *size)
    else:
        part = (*_corner(spec, scaled, size, draws.crop, draws.across, draws.down), *size)
    turns = video.quarter_turns if spec.rotate else 0
    mirrored = video.mirrored and spec.rotate
    if mirrored:
        region, part = mirrored_back(region, whole), mirrored_back(part, scaled)
    x, y, width, height = turned_back(part, scaled, turns)
    if turns % 2:
        scaled, size = scaled[::-1], size[::-1]
    if is_even or (width, height) != size:  # a chroma sample spans two pixels
        x, y = x & ~1, y & ~1
    stored = _stored(turned_back(region, whole, turns), video)
    colors, own = None, draws.seed
    if recolors(spec):
        colors = draw_colors(spec.jitter, spec.grayscale, generator(own + _COLORS))
    part, flip = (x, y, width, height), draws.mirror != mirrored
    return ClipParams(
        draws.frame_indices, stored, scaled, part, size, turns, flip, own, place, colors
    )


def _around(
    spec: ClipSpec, video: VideoInfo, row: Video, frames: Ints, frame: Size, draw: Draw
) -> Rectangle:
    """Return the region of a resized frame that shows a row's box of these frames; all of it if it
    has none. Raises UnfitError: the box lies beside the frame."""
    size, box = height_and_width(spec)[::-1], box_of(row, frames)
    if box is None:
        return box_region((0, 0, *frame), frame, size, 1.0)
    x, y, *_ = video.cut
    box = box[0] - x, box[1] - y, box[2] - x, box[3] - y
    if not is_inside(box, (video.width, video.height)):
        raise UnfitError(
            f"the box {', '.join(f'{side:g}' for side in box)} (left, top, right, bottom) lies "
            f"beside the frames of {video.width}x{video.height} pixels: give boxes in pixels of "
            "this file",
            here_only=len(row.boxes) > _ONE_BOX,
        )
    turns, mirrored = (video.quarter_turns, video.mirrored) if spec.rotate else (0, False)
    least, most = least_and_most(spec)
    shown = shown_box(box, (video.width, video.height), turns, mirrored, frame)
    return box_region(shown, frame, size, least + (most - least) * draw())


def _stored(region: Rectangle, video: VideoInfo) -> Rectangle:
    """Return a region of the shown frame as a region of the decoded one. It begins at even pixels,
    because a chroma sample spans two each way, or at an edge."""
    (x, y, width, height), (left, top, *_) = region, video.cut
    return max(left, left + x & ~1), max(top, top + y & ~1), width, height


def _corner(
    spec: ClipSpec, scaled: Size, size: Size, number: int, across: float, down: float
) -> Size:
    """Return where the crop begins in a scaled frame. Raises UnfitError if it does not fit."""
    free_x, free_y = scaled[0] - size[0], scaled[1] - size[1]
    if spec.crop == "none" and (free_x or free_y):
        raise UnfitError(
            f"frames are {scaled[0]}x{scaled[1]} pixels, the stream's are "
            f"{size[0]}x{size[1]}; give resize and size"
        )
    if free_x < 0 or free_y < 0:
        raise UnfitError(
            f"frames of {scaled[0]}x{scaled[1]} pixels are smaller than the crop "
            f"{size[0]}x{size[1]}; give resize"
        )
    if spec.crop == "random":
        return int(across * (free_x + 1)), int(down * (free_y + 1))
    return corner(spec.crop, scaled, size, number)
