"""What a clip is: the fields of a spec, and what follows from them alone.

`clip_params` decides which frames and which part of them a clip of a known video shows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from videoload.arguments import readable, real, whole
from videoload.clips.choices import (
    AREA,
    CROPS,
    FROM_SCALED,
    MAX_COUNT,
    MAX_SIDE,
    PIXEL_FORMATS,
    RATIO,
    WHOLE_FRAME,
    Align,
    Crop,
    Edges,
    Frames,
    Function,
    Long,
    PixelFormat,
    Pixels,
    Sampling,
    Scaling,
    Seconds,
    Short,
    Span,
    checked_range,
    function_name,
)
from videoload.clips.colors import Jitter, checked_colors
from videoload.clips.layouts import (
    AudioLayout,
    aligned,
    array_bytes,
    checked_audio,
    checked_output,
)
from videoload.clips.regions import Size, scaled_size
from videoload.errors import SpecError

# What a field means stands at the field, in its ``metadata``, and all that treats fields alike is
# derived from this:
OWN = {"own": True}  # each part of a sample has its own; all else is decided once, for the leader
COUNTS = {"counts": True}  # decides how many windows or frames a video gives
FRAMES = {"frames": True}  # determines how many frames a clip has
LENGTH = {"length": True}  # decides how long clips of any length are
SCALES = {"scales": True}  # decides how a frame is scaled; or for which specs it does: a function
# "lacks": for which specs a frame may be missing; "fits": for which no video is too short.
# "still": what takes its place where nothing is random, a function of the spec.
# "pads": for which specs a clip may end before its array, which is padded; "varies": for which
# the clips of a stream have several shapes.
# "any_length", "of_sizes": all that it may be in clips of any length, or of one of several sizes.
# "default": what it is if it is not given and that depends on other fields, a function of the spec.


def has_any_length(spec: ClipSpec) -> bool:
    """Return whether clips have any length, up to that of the spec."""
    return spec.max_frames is not None


def _usual_short(spec: ClipSpec) -> Short:
    return "zero" if has_any_length(spec) else "loop"


def _still_ratio(spec: ClipSpec) -> tuple[float, float]:
    """Return a ratio that never fits with the whole area, so that the largest region in the center
    is used."""
    if spec.crop != "resized":
        return spec.ratio
    height, width = height_and_width(spec)
    return width / height, width / height


@readable
@dataclass(frozen=True, slots=True)
class ClipSpec:
    """How to cut a clip from a video: its frames, crop and pixels.

    Examples:
        >>> clip = vl.ClipSpec(frames=16, stride=2, resize=128, size=112, flip=True)
        >>> clip.shape  # of one clip, uint8
        (16, 112, 112, 3)

    Everything random depends only on the stream's seed, the epoch and the clip's number in it. So a
    clip is the same on every worker and in every run.

    Attributes: which frames
        frames: Frames in a clip (T), at least 1. Default: as many as ``offsets``. ``"all"``: clips
            of any length, up to ``max_frames``.
        stride: Source frames from one frame of the clip to the next, at least 1. Default 1.
        fps: Frames per second of the clip, at least 0.001, instead of ``stride``. Each frame is the
            one that a player shows at its time. Default None.
        sampling: Where the clip starts in the video or its segment. ``"center"``: in the middle.
            ``"random"``: anywhere it fits. ``"uniform"``: ``clips_per_video`` starts, evenly from
            the first possible to the last, as usual for testing (Wang et al. 2018, Non-local Neural
            Networks). ``"dense"``: every window, ``hop`` frames or ``hop_s`` seconds apart. If the
            catalog does not contain the numbers of windows, the indexes of all videos are read when
            the stream is created. ``"at"``: the row's moment (``at`` or ``at_s`` of the catalog) is
            frame number ``T // 2`` of the clip, counted from 0: the middle one, or of an even
            number the second of the two in the middle. A moment in seconds means the frame that a
            player shows then. None, the default: ``"random"`` in a stream that is shuffled, and
            else ``"center"``.
        clips_per_video: Clips of each row in an epoch, at least 1. Default 1. It stays 1 with
            ``"dense"``, which takes all windows.
        align: ``"keyframe"``: a window of ``"random"``, ``"center"`` or ``"uniform"`` begins at a
            keyframe, so nothing before it is decoded. It is the last one at or before the frame
            that it would begin with, or else the first one after it, of those where a window fits
            into the video or segment; a segment without any gives the window that begins with its
            first frame. So fewer windows exist: in a file with one keyframe, a single one. Of
            several files as one sample, it is the first part's keyframe, and of steps with times of
            their own, the first step that shows it or a later frame. Default None: at any frame.
        hop: Source frames from one window of ``"dense"`` to the next, at least 1. Default None:
            ``frames * stride``, so windows do not overlap. Not with ``fps``.
        hop_s: Seconds from one window of ``"dense"`` to the next, at least 0.001, instead of
            ``hop``: window k starts ``k * hop_s`` seconds after the first frame, with the frame
            that a player shows then. Default None; with ``fps``: ``frames / fps``, so windows do
            not overlap.
        offsets: Source frames of a clip, counted from the moment of ``"at"`` or from the middle
            frame of a window of ``"dense"``, instead of ``frames`` and ``stride``: ``(-2, -1, 0, 1,
            2)``. They rise. Default None.
        edges: What windows of ``"at"`` and ``"dense"`` show beyond the ends of the video or its
            segment. ``"hold"``: its first or its last frame. ``"zero"``: black. These frames have
            the number -1 and no time. ``"dense"`` then gives each ``hop``-th frame a window with it
            in the middle, as ``"at"`` does, from the first frame on: with ``hop=1``, all frames.
            Default None: ``"dense"`` takes the windows that fit, and a moment whose window does not
            fit is a bad row (with ``short="drop"``, it is left out without counting).
        span: What the frames of a clip are spread over. ``"window"``, the default: the source
            frames from its first to its last. ``"video"``: the whole video or segment in ``frames``
            equal parts, with a frame from each (Wang et al. 2016). ``sampling="random"`` draws that
            frame, ``"center"`` takes the middle one, and ``"uniform"`` takes evenly spaced ones for
            its ``clips_per_video`` clips (Li et al. 2022, UniFormerV2). Without stride and fps.
        views: Clips of one video in each sample (k), at least 1. k > 1 gives [k, T, H, W, C].
            Default 1.
        short: What to do with a video shorter than a clip. ``"loop"``, the default: repeat it from
            its start. ``"hold"``: repeat its last frame. ``"zero"``: the missing frames are black,
            and have the number -1. ``"drop"``: take another clip, without counting it as bad.
            ``"error"``: it is bad. With ``max_frames``, it selects the padding: ``"zero"``, the
            default, or ``"hold"``, which has the number -1 there as well. Or ``"cut"``, in a stream
            with ``buckets``: none is padded. A clip has as many frames as the largest bucket that
            its video fills, at the place of ``sampling``. Videos that fill none are left out, and
            named.
        max_frames: Clips of any length: the whole video or segment from its first frame on, each
            ``stride``-th frame or ``fps`` of them a second, at least 1 and at most this many. For a
            longer one, ``sampling`` and ``long`` select so many frames. A clip with fewer frames
            than its batch is padded at its end, and ``info.lengths`` contains its length. A stream
            with ``buckets`` has batches of several lengths, so that little is padded; without, all
            have ``max_frames``. ``frames`` is then ``"all"``, and becomes this number. Default
            None: all clips have ``frames``.
        long: What a clip of any length shows of a video that has more frames than it. ``"cut"``,
            the default: a window. ``"thin"``: frames evenly over the whole video, including the
            first and the last one, each the one that a player shows at its time; ``info.times``
            contains the times. Without audio.
        seconds: From where ``start_s``, ``end_s`` and ``at_s`` of rows, and ``info.times``, count.
            ``"picture"``, the default: from the first frame. ``"file"``: as players count, from the
            beginning of the file, which is the audio's where that begins first. A frame number is
            the same in both, and the steps of a LeRobot set go by their own times.

    Attributes: which part of them
        resize: Even length in pixels to which the short side is scaled before the crop. The long
            side preserves the ratio, to the nearest even length. Default None: not scaled.
        size: (height, width) of the clip in pixels, or one number for both. Default None: whole
            frames, in the size of the catalog's first good video (after ``resize``); videos of
            another size are bad. Or a list of sizes, ``[(480, 832), (832, 480), (624, 624)]``: each
            video has the one whose ratio is nearest to its display aspect ratio, with rotation and
            non-square pixels. Frames are scaled to cover it, and ``crop`` selects the part to cut
            out: ``"center"``, ``"random"``, or with ``"pad"`` none: they are scaled to fit into it.
            A batch has one size.
        crop: Which part of a frame. ``"center"``, the default, and ``"random"`` cut ``size`` out of
            the resized frame. ``"resized"`` scales a random region of the resized frame to
            ``size``, or without ``resize`` of the source frame: 8 to 100 % of its area, 3:4 to 4:3
            in shape, or by ``area`` and ``ratio`` (Szegedy et al. 2015). ``"three"`` cuts ``size``
            at both ends and in the middle of the long side, ``"five"`` at the corners and in the
            middle; each clip is then three or five rows of the stream. ``"pad"`` shows the whole
            frame as large as it fits into ``size``, in the middle of black (letterbox, as
            tf.image.resize_with_pad). ``"stretch"`` scales the whole frame to ``size``, whatever
            its shape. Both without ``resize``. ``"box"`` scales the row's box (``box`` of the
            catalog) to ``size``, with as much around it as the shape of ``size`` needs. The crop is
            centered on the box, to a pixel; at an edge of the frame it moves inside. A crop that is
            larger than the frame has black around it, and a row without a box shows its whole
            frame, both as ``"pad"``. It is cut out of the resized frame, or without ``resize`` of
            the source frame, and a frame store is used only with ``resize``. ``"none"``: videos
            whose frames do not have this size are bad.
        area: (least, most) share of the frame for ``crop="resized"``. Default (0.08, 1).
        ratio: (least, most) ratio of width to height for ``"resized"``. Default (3/4, 4/3).
        box_scale: How much more than its box ``crop="box"`` shows, each way: 1.3 is 30 % more. Or
            (least, most): drawn for each clip. Default 1.
        flip: Mirror all frames of a clip left to right, with probability 1/2. Default False.
        rotate: Rotate frames by multiples of 90 degrees if their file requires it, as players do.
            Default True. False: as they are stored.

    Attributes: which pixels
        pixels: Format of the uint8 array. ``"rgb24"``, the default: [T, H, W, 3]. ``"gray"``:
            [T, H, W, 1]. ``"gray16"``: the same of uint16, as depth maps have. ``"yuv420p"``: [T, H
            * 3 // 2, W], the planes Y, U and V one after the other, with an even size. A crop
            begins at even pixels there, so it may begin a pixel before that of ``"rgb24"``, and a
            letterbox has even sides; ``info.affine`` is of what is shown.
        scaling: ``"bilinear"``, the default; or ``"nearest"``: each value is that of one source
            pixel, as depth and label maps need. A frame store does not contain these clips.
        jitter: (brightness, contrast, saturation, hue): the largest changes of a clip's colors,
            random for each clip, and the same in all its frames. The first three are 0 to 1 and
            draw a factor from [1 - most, 1 + most], hue is 0 to 0.5 turns and draws from [-most,
            most]. The frames change before they become RGB, which takes a tenth of a clip's time.
            Default None.
        grayscale: Probability that a clip is converted to gray. Default 0.

    Attributes: audio, and functions of yours
        audio_rate: Samples a second of the audio of the clip's own time. Needs ``fps``. A sample is
            then a dict: ``"video"``, as above, and ``"audio"``, float32 [samples] from -1 to 1,
            with ``samples = round(frames / fps * audio_rate)``. Default None: no audio.
        audio_channels: 1, the default: mono. 2: stereo, [2, samples].
        transform: A function of a module, or ``"package.module:function"``. The worker calls it
            with each clip and a numpy.random.Generator seeded for the clip. It returns a clip of
            the same shape and type, or those of ``output``. Remote workers must allow the module
            (``--allow``). Default None.
        output: (shape, type) of what ``transform`` returns for a clip, if that is not a clip as
            above: ``((16, 112, 112, 3), "float32")``. Default None.

    Raises:
        SpecError: A value is out of its range, or two fields contradict each other.
    """

    frames: Frames = field(default=0, metadata=OWN | COUNTS | FRAMES)  # type: ignore[assignment]
    stride: int = field(default=1, metadata=COUNTS)
    fps: float | None = field(default=None, metadata=COUNTS)
    resize: int | None = field(default=None, metadata=OWN | SCALES | {"of_sizes": (None,)})
    size: Sequence[int | tuple[int, int]] | int | None = field(default=None, metadata=OWN | {
        "scales": lambda spec: bool(sizes_of(spec)) or spec.crop in WHOLE_FRAME,
        "varies": lambda spec: bool(sizes_of(spec)),
    })  # fmt: skip
    crop: Crop = field(default="center", metadata={
        "of_sizes": ("center", "random", "pad"),
        "scales": lambda spec: spec.crop in WHOLE_FRAME,
        "still": lambda spec: "center" if spec.crop == "random" else spec.crop,
    })  # fmt: skip
    flip: bool = field(default=False, metadata={"still": lambda spec: False})
    sampling: Sampling | None = field(default=None, metadata=COUNTS | {
        "any_length": (None, "random", "center", "uniform"),
        "fits": lambda spec: spec.sampling == "at",
        "still": lambda spec: "center" if spec.sampling in ("random", None) else spec.sampling,
    })  # fmt: skip
    clips_per_video: int = 1
    hop: int | None = field(default=None, metadata=COUNTS)
    short: Short | None = field(default=None, metadata=COUNTS | LENGTH | {
        "any_length": ("zero", "hold", "cut"), "default": _usual_short,
        "lacks": lambda spec: spec.short == "zero",
    })  # fmt: skip
    pixels: Pixels = field(default="rgb24", metadata=OWN | SCALES)
    transform: Function | None = field(default=None, metadata=OWN)
    span: Span = field(default="window", metadata={"any_length": ("window",)})
    views: int = 1
    area: tuple[float, float] = field(default=AREA, metadata={
        "still": lambda spec: (1.0, 1.0) if spec.crop == "resized" else spec.area,
    })  # fmt: skip
    ratio: tuple[float, float] = field(default=RATIO, metadata={"still": _still_ratio})
    rotate: bool = field(default=True, metadata=OWN | COUNTS | SCALES)
    output: tuple[tuple[int, ...], str] | None = field(
        default=None, metadata=OWN | {"any_length": (None,)}
    )
    hop_s: float | None = field(default=None, metadata=COUNTS)
    jitter: Jitter | None = field(default=None, metadata=OWN | {"still": lambda spec: None})
    grayscale: float = field(default=0.0, metadata=OWN | {"still": lambda spec: 0.0})
    scaling: Scaling = field(default="bilinear", metadata=OWN | SCALES)
    audio_rate: int | None = field(default=None, metadata=OWN)
    audio_channels: int = field(default=1, metadata=OWN)
    offsets: tuple[int, ...] | None = field(
        default=None, metadata=OWN | FRAMES | {"any_length": (None,)}
    )
    edges: Edges | None = field(default=None, metadata=COUNTS | {
        "any_length": (None,), "lacks": lambda spec: spec.edges is not None,
        "fits": lambda spec: spec.edges is not None,
    })  # fmt: skip
    box_scale: float | tuple[float, float] = field(default=1.0, metadata={
        "still": lambda spec: sum(least_and_most(spec)) / 2,
    })  # fmt: skip
    max_frames: int | None = field(default=None, metadata=COUNTS | FRAMES | LENGTH | {
        "lacks": has_any_length, "fits": has_any_length, "pads": has_any_length,
        "varies": has_any_length,
    })  # fmt: skip
    long: Long = field(default="cut", metadata=LENGTH)
    seconds: Seconds = field(default="picture", metadata=COUNTS)
    align: Align | None = None

    def __post_init__(self) -> None:
        self._check_any_length()
        self._check_offsets()
        own: Any = type(self)
        for name, kind in _kinds(own).items():
            given = getattr(self, name)
            if kind is int:
                object.__setattr__(self, name, whole(name, given, most=MAX_COUNT))
            elif kind is bool and not isinstance(given, bool):
                raise SpecError(f"{name} must be True or False, got {given!r}")
            elif (allowed := _choices(kind)) and given not in allowed:
                known = ", ".join(filter(None, allowed))
                raise SpecError(f"{name} must be one of {known}, got {given!r}")
        for name in ("fps", "hop_s"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real(name, given, 0.001))
        for name, most in (("resize", MAX_SIDE), ("hop", MAX_COUNT)):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole(name, given, most=most))
        self._check_size()
        self._check_ranges()
        if self.transform is not None:
            object.__setattr__(self, "transform", function_name("transform", self.transform))
        if self.output is not None:
            object.__setattr__(self, "output", checked_output(self.output, self.transform))
        colors = checked_colors(self.jitter, self.grayscale, self.pixels)
        audio = checked_audio(self.audio_rate, self.audio_channels, self.fps)
        for name, value in {**colors, **audio}.items():
            object.__setattr__(self, name, value)
        self._check_together()

    def _check_any_length(self) -> None:
        most: Any = self.max_frames
        if self.frames == 0 and most is None and self.offsets is None:
            raise SpecError("frames is missing: how many frames a clip has, at least 1")
        if isinstance(self.frames, str) and self.frames != "all":
            raise SpecError(
                f'frames must be an integer of at least 1, or "all", got {self.frames!r}'
            )
        if most is None and self.frames == "all":  # type: ignore[comparison-overlap]
            raise SpecError(
                'frames="all" needs max_frames=, the length of the longest clips: videoload scan '
                "tells it"
            )
        if self.short is None:
            object.__setattr__(self, "short", _usual_short(self))
        if most is None:
            if self.short == "cut" or self.long != "cut":
                own = f'long="{self.long}"' if self.short != "cut" else 'short="cut"'
                raise SpecError(f"{own} is for clips of any length: give max_frames=")
            return
        if self.long == "thin" and self.audio_rate is not None:
            raise SpecError(
                'long="thin" skips parts of a video, so it cannot have audio: omit audio_rate='
            )
        most = whole("max_frames", most, most=MAX_COUNT)
        frames = most if self.frames in (0, "all") else whole("frames", self.frames, most=most)
        object.__setattr__(self, "max_frames", most)
        object.__setattr__(self, "frames", frames)
        self._check_allowed("any_length", "clips of any length (max_frames)")

    def _check_allowed(self, what: str, clips: str) -> None:
        """Raise SpecError if a field is what it may not be in such clips."""
        for each in fields(self):
            own, allowed = getattr(self, each.name), each.metadata.get(what)
            if allowed is not None and own not in allowed:
                kinds = [repr(value) for value in allowed if value is not None]
                raise SpecError(
                    f"{clips} have no {each.name}={own!r}"
                    + (f": choose {' or '.join(kinds)}" if kinds else ": omit it")
                )

    def _check_size(self) -> None:
        if self.size is None:
            if self.crop in ("random", *FROM_SCALED, *WHOLE_FRAME, *CROPS):
                raise SpecError(f'crop="{self.crop}" needs a size')
            return
        is_list = isinstance(self.size, tuple | list)
        given: Any = self.size if is_list else (self.size, self.size)
        if several := any(isinstance(x, tuple | list) for x in given):
            size: Any = tuple(map(_pair, given))
            self._check_sizes(size)
        else:
            size = _pair(given)
        object.__setattr__(self, "size", size)
        lengths = [length for pair in sizes_of(self) or [size] for length in pair]
        if pixel_format(self).is_halved and any(length % 2 for length in lengths):
            raise SpecError(f'pixels="{self.pixels}" needs an even size, got {size}')
        if several:
            return
        if self.crop in WHOLE_FRAME and self.resize is not None:
            raise SpecError(f'crop="{self.crop}" scales the frame to size: omit resize')
        # Only the short side has the length resize; the long side depends on the video.
        scales = self.resize is not None and self.crop not in FROM_SCALED
        if scales and min(size) > (self.resize or 0):
            raise SpecError(f"size {size} does not fit into resize={self.resize}")

    def _check_sizes(self, sizes: Sequence[tuple[int, int]]) -> None:
        self._check_allowed(
            "of_sizes", "clips of several sizes, which their frames are scaled to cover,"
        )
        ratios = [Fraction(width, height) for height, width in sizes]
        if len({*ratios}) < len(sizes):
            raise SpecError(f"each size needs a ratio of its own, by which videos get it: {sizes}")

    def _check_ranges(self) -> None:
        for name, most in (("area", 1.0), ("ratio", 1000.0)):
            object.__setattr__(self, name, checked_range(name, getattr(self, name), most))
        if isinstance(self.box_scale, tuple | list):
            object.__setattr__(self, "box_scale", checked_range("box_scale", self.box_scale, 100.0))
        else:
            object.__setattr__(self, "box_scale", real("box_scale", self.box_scale, 0.001, 100.0))

    def _check_offsets(self) -> None:
        if self.offsets is None:
            return
        try:
            offsets = tuple(whole("offsets", each, -MAX_COUNT, MAX_COUNT) for each in self.offsets)
        except TypeError:
            raise SpecError(f"offsets must be integers, got {self.offsets!r}") from None
        if not offsets or any(a >= b for a, b in pairwise(offsets)):
            raise SpecError(f"offsets must be strictly increasing integers, got {self.offsets!r}")
        if self.frames not in (0, len(offsets)) or self.stride != 1 or self.fps is not None:
            raise SpecError("offsets select the frames: omit frames, stride and fps")
        if self.sampling != "at" and (self.sampling != "dense" or self.edges is None):
            raise SpecError(
                f"offsets={offsets} count from a moment: give the same spec "
                'sampling="at", or "dense" with edges='
            )
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "frames", len(offsets))

    def _check_together(self) -> None:
        """Raise SpecError if two fields contradict each other."""
        hops = [name for name in ("hop", "hop_s") if getattr(self, name) is not None]
        takes_windows = self.sampling in ("at", "dense")
        for is_wrong, why in (
            (self.fps is not None and self.stride != 1, "give stride or fps, not both"),
            ((self.resize or 0) % 2, f"resize must be even, got {self.resize}"),
            (self.crop != "resized" and self.area != AREA, 'area is for crop="resized"'),
            (self.crop != "resized" and self.ratio != RATIO, 'ratio is for crop="resized"'),
            (self.crop != "box" and self.box_scale != 1.0, 'box_scale is for crop="box"'),
            (hops and self.sampling != "dense", f'{" and ".join(hops)} is for sampling="dense"'),
            (len(hops) > 1, "give hop (source frames) or hop_s (seconds), not both"),
            (self.sampling == "dense" and self.clips_per_video != 1,
             'sampling="dense" takes all windows: omit clips_per_video'),
            (self.fps is not None and self.hop is not None,
             "hop counts source frames: with fps, give hop_s in seconds"),
            (self.edges is not None and not takes_windows,
             'edges is for sampling="at" and "dense"'),
            (self.edges is not None and self.short != "loop",
             "with edges, no video is too short: omit short"),
            (self.span == "video" and takes_windows,
             f'sampling="{self.sampling}" takes windows: leave span="{self.span}" out'),
            (self.span == "video" and (self.stride != 1 or self.fps is not None),
             'span="video" takes a frame from each part: omit stride and fps'),
            (self.align and takes_windows,
             f'sampling="{self.sampling}" selects each window: omit align'),
            (self.align and (self.span == "video" or self.long == "thin"),
             'align is where a window begins: omit span="video" and long="thin"'),
            (self.views > 1 and self.transform is None and not is_random(self),
             f"the {self.views} views of a sample would all be the same: make crop, flip or window "
             "random, or give jitter or a transform"),
        ):  # fmt: skip
            if is_wrong:
                raise SpecError(why)

    @property
    def shape(self) -> Any:
        """Shape of one sample's array, or a dict. Raises SpecError while ``size`` is None."""
        shape = clip_shape(self) if self.views == 1 else (self.views, *clip_shape(self))
        return shape if self.audio_rate is None else {"video": shape, "audio": audio_shape(self)}

    @property
    def dtype(self) -> Any:
        """NumPy's name of a sample's type; with ``sound``, a dict of types."""
        dtype = decoded_dtype(self) if self.output is None else self.output[1]
        return dtype if self.audio_rate is None else {"video": dtype, "audio": "float32"}

    @property
    def clip_bytes(self) -> int:
        """Bytes of one sample. Raises SpecError while ``size`` is None."""
        if self.audio_rate is not None:
            return audio_layout(self).length
        return array_bytes(self.shape, self.dtype)


# What follows from the meaning of its fields


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return all values of a type that is a choice, otherwise ()."""
    kinds = [each for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    return (*get_args(kinds[0]), *([None] if type(None) in get_args(kind) else [])) if kinds else ()


def _meaning(spec: ClipSpec, what: str) -> dict[str, Any]:
    """Return the fields that have this ``option`` in their metadata, with its value."""
    return {each.name: each.metadata[what] for each in fields(spec) if each.metadata.get(what)}


def _still(spec: ClipSpec) -> dict[str, Any]:
    return {name: still(spec) for name, still in _meaning(spec, "still").items()}


def is_random(spec: ClipSpec) -> bool:
    """Return whether anything of a clip is random, beside its transform."""
    return any(getattr(spec, name) != value for name, value in _still(spec).items())


def deterministic(spec: ClipSpec) -> ClipSpec:
    """Return the spec for validation: nothing of a clip is random. Several views of a sample stay
    as they are, since they would all be the same."""
    return spec if spec.views > 1 else replace(spec, **_still(spec))


def counting(spec: ClipSpec) -> ClipSpec:
    """Return the spec of what counts the windows: its fields that do not matter have defaults."""
    kept = {name: getattr(spec, name) for name in _meaning(spec, "counts")}
    return type(spec)(**{"size": (2, 2), **kept})


def scaling_key(spec: ClipSpec) -> str:
    """Return the settings that decide how a frame is scaled: specs with equal keys share their
    scaled frames."""
    return " ".join(
        f"{name}={getattr(spec, name)!r}"
        for name, scales in _meaning(spec, "scales").items()
        if scales is True or scales(spec)
    )


@lru_cache(64)  # called for each answer of a worker
def may_lack_frames(spec: ClipSpec) -> bool:
    """Return whether a clip may show frames that its video does not have."""
    return any(lacks(spec) for lacks in _meaning(spec, "lacks").values())


def fits_any_video(spec: ClipSpec) -> bool:
    """Return whether no video is too short for a clip."""
    return any(fits(spec) for fits in _meaning(spec, "fits").values())


@lru_cache(64)  # it is asked for each clip
def is_padded(spec: ClipSpec) -> bool:
    """Return whether a clip may end before its array does, and the rest is padding."""
    return any(pads(spec) for pads in _meaning(spec, "pads").values())


def varies_by(spec: ClipSpec) -> list[str]:
    """Return the fields by which the clips of a stream have several shapes."""
    return [name for name, varies in _meaning(spec, "varies").items() if varies(spec)]


def of_any_length(spec: ClipSpec) -> Collection[str]:
    """Return the fields that decide how long clips of any length are."""
    return _meaning(spec, "length")


def say_frames(given: Collection[str]) -> bool:
    """Return whether one of these fields determines how many frames a clip has."""
    return any(each.metadata.get("frames") and each.name in given for each in fields(ClipSpec))


def of_all_parts(spec: ClipSpec) -> list[Field[Any]]:
    """Return the fields that are decided once for all parts of a sample."""
    return [each for each in fields(spec) if not each.metadata.get("own")]


# What else follows from a spec


def least_and_most(spec: ClipSpec) -> tuple[float, float]:
    """Return how much more than its box a clip shows."""
    scale = spec.box_scale
    return scale if isinstance(scale, tuple) else (scale, scale)


def height_and_width(spec: ClipSpec) -> tuple[int, int]:
    """Return height and width of a clip in pixels, or of the largest of several sizes. Raises
    SpecError while ``size`` is None."""
    if spec.size is None:
        raise SpecError(
            "size=None: the stream finds it in its first video, and has it in stream.clip"
        )
    sizes = sizes_of(spec)
    return max(sizes, key=math.prod) if sizes else cast("tuple[int, int]", spec.size)


def sizes_of(spec: ClipSpec) -> tuple[tuple[int, int], ...]:
    """Return the sizes (height, width) of which each video has one; (): clips have one size, or
    that of their videos."""
    several = isinstance(spec.size, tuple) and isinstance(spec.size[0], tuple)
    return cast("tuple[tuple[int, int], ...]", spec.size) if several else ()


def covering(frame: Size, size: Size) -> Size:
    """Return the size of a frame that is scaled to cover ``size`` with its aspect ratio: one side
    is that of ``size``, the other the nearest even length that is no shorter."""
    (width, height), (across, down) = frame, size
    if width * down >= height * across:
        return max(across, 2 * ((width * down + height) // (2 * height))), down
    return across, max(down, 2 * ((height * across + width) // (2 * width)))


def nearest_aspect(frame: Size, sizes: Sequence[Size]) -> int:
    """Return the number of the size whose ratio of width to height is nearest to that of a frame:
    the larger of both is the fewest times the other. Of two that are as near, it is the first
    one."""

    def apart(size: Size) -> Fraction:
        one, other = frame[0] * size[1], frame[1] * size[0]
        return Fraction(max(one, other), min(one, other))

    return min(range(len(sizes)), key=lambda number: apart(sizes[number]))


def _pair(given: Any) -> tuple[int, int]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise SpecError(
            f"size must be (height, width), one number, or a list of such pairs, got {given!r}"
        )
    height, width = (whole("size", length, most=MAX_COUNT) for length in given)
    return height, width


def at_native_size(spec: ClipSpec, width: int, height: int) -> ClipSpec:
    """Return the spec for whole frames of one size in pixels: videos of another size are bad."""
    across, down = scaled_size(width, height, spec.resize)
    return replace(spec, size=(down, across), crop="none")


def dense_hop(spec: ClipSpec) -> int:
    """Return source frames from one window of ``"dense"`` to the next, if `hop_seconds` is None."""
    return spec.frames * spec.stride if spec.hop is None else spec.hop


def hop_seconds(spec: ClipSpec) -> float | None:
    """Return seconds from one window of ``"dense"`` to the next; None: source frames are
    counted."""
    if spec.hop_s is not None or spec.fps is None:
        return spec.hop_s
    return spec.frames / spec.fps


def crops_of(spec: ClipSpec) -> int:
    """Return rows of the stream per clip: 3 for ``"three"``, 5 for ``"five"``, else 1."""
    return CROPS.get(spec.crop, 1)


def pixel_format(spec: ClipSpec) -> PixelFormat:
    """Return the layout of its pixels in an array."""
    return PIXEL_FORMATS[spec.pixels]


def decoded_shape(spec: ClipSpec) -> tuple[int, ...]:
    """Return shape of one decoded clip. Raises SpecError while ``size`` is None."""
    height, width = height_and_width(spec)
    if pixel_format(spec).is_halved:
        return (spec.frames, height * 3 // 2, width)
    return (spec.frames, height, width, pixel_format(spec).channels)


def decoded_dtype(spec: ClipSpec) -> str:
    """Return NumPy's name of a decoded clip's type."""
    return pixel_format(spec).dtype


def clip_shape(spec: ClipSpec) -> tuple[int, ...]:
    """Return shape of one clip's array. Raises SpecError while ``size`` is None."""
    return decoded_shape(spec) if spec.output is None else spec.output[0]


def recolors(spec: ClipSpec) -> bool:
    """Return whether clips have color jitter."""
    return spec.jitter is not None or spec.grayscale > 0


def silent(spec: ClipSpec) -> ClipSpec:
    """Return the spec without audio."""
    return spec if spec.audio_rate is None else replace(spec, audio_rate=None, audio_channels=1)


def samples_of(spec: ClipSpec, frames: int) -> int:
    """Return the number of audio samples for so many frames of a clip."""
    fps = Fraction(spec.fps or 1).limit_denominator(1_000_000)  # as the frames are counted
    return max(1, round(frames * (spec.audio_rate or 1) / fps))


def audio_shape(spec: ClipSpec) -> tuple[int, ...]:
    """Return the shape of one sample's audio, which lasts as long as its frames."""
    samples = samples_of(spec, spec.frames)
    shape = (samples,) if spec.audio_channels == 1 else (spec.audio_channels, samples)
    return shape if spec.views == 1 else (spec.views, *shape)


def audio_layout(spec: ClipSpec) -> AudioLayout:
    """Return the places of pixels and audio in the bytes of a sample."""
    pixels = silent(spec).clip_bytes
    begin = aligned(pixels)
    end = begin + array_bytes(audio_shape(spec), "float32")
    flag = aligned(end)
    return AudioLayout(slice(pixels), slice(begin, end), flag, aligned(flag + 1))
