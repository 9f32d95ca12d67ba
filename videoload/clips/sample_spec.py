"""What a sample is: a mapping of names to clips. A single clip is its one member without a name.

Plan, leases, slots and transport only know what all samples have in common: their bytes, and how
arrays view them. In a slot and in a message, samples are rows of bytes, one after the other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from videoload.arguments import default_of, real
from videoload.clips.clip_spec import (
    ClipSpec,
    audio_layout,
    has_any_length,
    of_all_parts,
    of_any_length,
    sizes_of,
)
from videoload.clips.layouts import aligned, as_arrays
from videoload.errors import SpecError

By = Literal["time", "frames"]
GivenSpec = ClipSpec | Mapping[str, ClipSpec]  # a mapping for a catalog of several parts
V = TypeVar("V")
T = TypeVar("T", bound=np.generic)


def unnamed(parts: Mapping[str, V]) -> Any:
    """Return the member without a name itself, otherwise a dict of all members of a sample."""
    return parts[""] if "" in parts else dict(parts)


class SampleParts(NamedTuple):
    """How the files of a sample lie beside each other: see `Catalog.side_by_side`.

    Attributes:
        names: The parts, in the order of a video's paths.
        by: Whether parts show what was at the same ``"time"``, or ``"frames"`` of the same number.
        offsets_s: When the file of a part begins, in seconds after that of the first clip.
    """

    names: tuple[str, ...]
    by: By = "time"
    offsets_s: Mapping[str, float] = {}


class SampleSpec(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="clips"
):
    """A clip, or several files as one sample: a spec for each part. In a lease, it is the task to
    decode such clips.

    The first part leads: what is drawn is drawn for it. The others show what was at the same
    time (or the frames of the same number), in the same relative part of their frames. One with
    ``offsets`` shows frames of its own around the moment of the first one's clip.

    Attributes:
        clips: The spec of each part, in the order of a video's paths.
        by: As in `SampleParts`.
        offsets_s: As in `SampleParts`.

    Raises:
        SpecError: The specs contradict each other.
    """

    clips: dict[str, ClipSpec]
    by: By = "time"
    offsets_s: dict[str, float] | None = None

    def __post_init__(self) -> None:
        if not self.clips:
            raise SpecError("a sample needs a part")
        led = {name: self._led(name, clip) for name, clip in self.clips.items()}
        msgspec.structs.force_setattr(self, "clips", led)
        odd = [name for name, clip in led.items() if clip.size is None]
        if 0 < len(odd) < len(led):
            raise SpecError(f"other clips of the sample have a size: give size= to {odd[0]!r}")
        self._check_audio()
        offsets = self.offsets_s or {}
        if unknown := {*offsets} - {*self.clips}:
            raise SpecError(f"offset_s names {min(unknown)!r}, which is not a part")
        for name, seconds in offsets.items():
            real(f"offset_s of {name!r}", seconds, -1e9, 1e9)
        if self.by == "frames" and any(offsets.values()):
            raise SpecError('offset_s is in seconds: omit by="frames"')

    def _check_audio(self) -> None:
        heard = [name for name, clip in self.clips.items() if clip.audio_rate is not None]
        if len(heard) > 1:
            raise SpecError(
                f"only one part may have audio: omit audio_rate= of {' or '.join(heard)}"
            )
        if heard and "audio" in self.clips:
            raise SpecError(
                f"the key 'audio' is reserved for the audio of part {heard[0]!r}: rename that part"
            )
        if heard and self.clips[heard[0]].frames != self.leader.frames:
            raise SpecError(
                f"the part with audio must have as many frames as part {self.leading!r}"
            )

    def _led(self, name: str, spec: ClipSpec) -> ClipSpec:
        """Return the spec of a part with the leader's random fields. Raises SpecError if it sets
        them itself."""
        first = self.clips[self.leading]
        if spec is first:
            return first
        if spec.offsets is not None and moment_at(first) is None:
            raise SpecError(
                f"part {name!r} has offsets, and clips of part {self.leading!r} are around no "
                'moment: give that sampling="at", or "dense" with edges=, and a 0 in its offsets'
            )
        if first.offsets and not spec.offsets and spec.frames != first.frames:
            raise SpecError(
                f"part {name!r} has {spec.frames} frames beside the {first.frames} offsets of part "
                f"{self.leading!r}: give it offsets="
            )
        for field in of_all_parts(first):
            own = getattr(spec, field.name)
            if own not in (default_of(field, spec), getattr(first, field.name)):
                raise SpecError(
                    f"{field.name} is drawn for part {self.leading!r}: leave {field.name}={own!r} "
                    f"out of part {name!r}; one part alone may have jitter, grayscale and "
                    "transform"
                )
        drawn = {field.name: getattr(first, field.name) for field in of_all_parts(first)}
        if has_any_length(first) and not has_any_length(spec):  # it has one length
            drawn = {n: v for n, v in drawn.items() if n not in of_any_length(spec)}
        elif has_any_length(first) and spec.frames != first.frames:
            raise SpecError(
                f"part {self.leading!r} has clips of any length: give {name!r} the same "
                "max_frames, or none"
            )
        try:
            return replace(spec, **drawn)
        except SpecError as error:
            raise SpecError(
                f"part {name!r}, with what part {self.leading!r} draws: {error}"
            ) from None

    def __hash__(self) -> int:
        return hash((*self.clips.items(),))  # a dict cannot be hashed

    @property
    def leading(self) -> str:
        """Name of the part that leads."""
        return next(iter(self.clips))

    @property
    def leader(self) -> ClipSpec:
        """The spec that leads."""
        return self.clips[self.leading]

    @property
    def given(self) -> ClipSpec | dict[str, ClipSpec]:
        """The spec as passed to a stream."""
        return cast("ClipSpec | dict[str, ClipSpec]", unnamed(self.clips))

    @property
    def has_offsets(self) -> bool:
        """Whether parts show their own frames around the leader's moment."""
        return any(clip.offsets for name, clip in self.clips.items() if name != self.leading)

    def offset_s(self, name: str) -> float:
        """Return when the file of a part begins, in seconds after that of the leader."""
        offsets = self.offsets_s or {}
        return offsets.get(name, 0.0) - offsets.get(self.leading, 0.0)

    def shifted(self, offsets_s: Sequence[float]) -> SampleSpec:
        """Return this spec for files that begin later by these offsets, one for each part; [] for
        none. Raises ValueError."""
        if not offsets_s:
            return self
        own, new = self.offsets_s or {}, copy.copy(self)
        offsets = {
            name: own.get(name, 0.0) + more
            for name, more in zip(self.clips, offsets_s, strict=True)
        }
        if not all(map(math.isfinite, offsets.values())):
            raise ValueError("an offset is not finite")
        msgspec.structs.force_setattr(new, "offsets_s", offsets)
        return new

    @property
    def shape(self) -> Any:
        """Shape of a sample's array; or a dict of the shapes of each part's array, and of the
        audio."""
        return _flat({name: clip.shape for name, clip in self.clips.items()})

    @property
    def dtype(self) -> Any:
        """NumPy's name of its type; or a dict of them."""
        return _flat({name: clip.dtype for name, clip in self.clips.items()})

    @property
    def places(self) -> dict[str, slice]:
        """The places of each part in the bytes of a sample."""
        found, at = {}, 0
        for name, clip in self.clips.items():
            found[name] = slice(at, at + clip.clip_bytes)
            at += aligned(clip.clip_bytes)
        return found

    @property
    def clip_bytes(self) -> int:
        """Bytes of one sample. Raises SpecError while the size is not known."""
        if len(self.clips) == 1:  # a batch of them is one array
            return self.leader.clip_bytes
        return sum(aligned(clip.clip_bytes) for clip in self.clips.values())


def one_clip(spec: ClipSpec) -> SampleSpec:
    """Return the spec of samples that are single clips."""
    return SampleSpec({"": spec})


def one_frame(spec: SampleSpec) -> SampleSpec:
    """Return a spec that no video is too short for, and that shows frames as this one does."""
    clips = {name: ClipSpec(1, rotate=clip.rotate) for name, clip in spec.clips.items()}
    return msgspec.structs.replace(spec, clips=clips)


def has_sizes(spec: SampleSpec) -> bool:
    """Return whether clips have one of several sizes."""
    return any(map(sizes_of, spec.clips.values()))


class Shape(NamedTuple):
    """What the clips of a batch have in common, where those of a stream differ.

    Attributes:
        frames: Of each clip, or of that of the leader; 0: there are none.
        sizes: (height, width) of each part that has one of several sizes.
    """

    frames: int = 0
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def pixels(self) -> int:
        """Pixels of a frame of all these parts; 1: there are none."""
        return sum(map(math.prod, self.sizes)) or 1

    def __str__(self) -> str:
        sizes = [f"{height}x{width}" for height, width in self.sizes]
        return " of ".join([str(self.frames), *sizes])


def shape_of(spec: SampleSpec) -> Shape:
    """Return the shape of the largest clips."""
    sizes = (max(each, key=math.prod) for each in map(sizes_of, spec.clips.values()) if each)
    return Shape(spec.leader.frames, tuple(sizes))


def with_shape(spec: SampleSpec, shape: Shape) -> SampleSpec:
    """Return the spec of the clips in a batch of this shape. It only differs for clips of any
    length, or of one of several sizes."""
    sizes = iter(shape.sizes)

    def shaped(clip: ClipSpec) -> ClipSpec:
        own: dict[str, Any] = {"frames": shape.frames} if has_any_length(clip) else {}
        own |= {"size": (next(sizes),)} if shape.sizes and sizes_of(clip) else {}
        return replace(clip, **own) if own else clip

    clips = {name: shaped(clip) for name, clip in spec.clips.items()}
    return spec if clips == spec.clips else msgspec.structs.replace(spec, clips=clips)


def frames_shape(spec: SampleSpec) -> tuple[int, ...]:
    """Return shape of a sample's frame numbers: (T,), or (k, T) for several views, those of the
    leader."""
    clip = spec.leader
    return (clip.frames,) if clip.views == 1 else (clip.views, clip.frames)


def reported_shape(spec: SampleSpec) -> tuple[int, ...]:
    """Return shape of the frame numbers that a worker reports of a sample: as `frames_shape`, or
    those of all parts one after the other, if parts have offsets of their own."""
    shape = frames_shape(spec)
    if not spec.has_offsets:
        return shape
    return (*shape[:-1], sum(clip.frames for clip in spec.clips.values()))


def by_part(spec: SampleSpec, reported: npt.NDArray[T]) -> dict[str, npt.NDArray[T]]:
    """Return numbers [n, *reported_shape] of each part; else of the leader, named ""."""
    if not spec.has_offsets:
        return {"": reported}
    ends = np.cumsum([clip.frames for clip in spec.clips.values()])[:-1]
    parts = np.split(reported, ends, axis=-1)
    return {name: np.array(part) for name, part in zip(spec.clips, parts, strict=True)}


def moment_at(clip: ClipSpec) -> int | None:
    """Return the frame of a clip that shows its moment; None: it has no moment."""
    if clip.sampling != "at" and (clip.sampling != "dense" or clip.edges is None):
        return None
    if clip.offsets is not None:
        return clip.offsets.index(0) if 0 in clip.offsets else None
    return clip.frames // 2


def arrays_of(spec: SampleSpec, rows: npt.NDArray[np.uint8]) -> Any:
    """Return samples as views of their bytes.

    Args:
        spec: What they are.
        rows: Their bytes, uint8 [..., clip_bytes], contiguous.

    Returns:
        An array [..., *shape] of the spec's dtype, or a dict of them.
    """
    places = spec.places.items()
    return _flat({name: clip_arrays(spec.clips[name], rows[..., at]) for name, at in places})


def clip_arrays(spec: ClipSpec, rows: npt.NDArray[np.uint8]) -> Any:
    """Return the arrays of single clips, as `arrays_of`."""
    if spec.audio_rate is None:
        return as_arrays(rows, spec.shape, spec.dtype)
    video, audio, *_ = audio_layout(spec)
    parts = {"video": rows[..., video], "audio": rows[..., audio]}
    return {name: as_arrays(parts[name], spec.shape[name], spec.dtype[name]) for name in parts}


def _flat(parts: Mapping[str, Any]) -> Any:
    """Return the audio of a part as one more part. A single clip is unchanged."""
    if "" in parts:
        return parts[""]
    found: dict[str, Any] = {}
    for name, each in parts.items():
        pair = each if isinstance(each, dict) else {"video": each}
        found |= {name if key == "video" else key: value for key, value in pair.items()}
    return found


def has_audio_in(spec: SampleSpec, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_] | None:
    """Return whether the file of each sample has audio, bool [n]; None if the spec requests none.

    Args:
        spec: What the samples are.
        rows: Their bytes, uint8 [n, spec.clip_bytes].
    """
    for name, clip in spec.clips.items():
        if clip.audio_rate is not None:
            flag = rows[:, spec.places[name]][:, audio_layout(clip).flag]
            return np.not_equal(flag, 0)
    return None


def transforms_of(spec: SampleSpec) -> list[str]:
    """Return the names of the user's functions in a spec."""
    return [str(clip.transform) for clip in spec.clips.values() if clip.transform is not None]


def sample_spec(
    parts: SampleParts | None, given: GivenSpec, *, shuffle: bool = False
) -> SampleSpec:
    """Return the spec of a stream: of a dict, if the catalog has ``parts``. By default, clips of a
    shuffled stream are sampled at random. Raises SpecError."""
    if parts is None:
        if isinstance(given, Mapping):
            raise SpecError(
                "a sample of this catalog has one file: give a ClipSpec, not a dict; a dict is for "
                "Catalog.side_by_side"
            )
        parts, given = SampleParts(("",)), {"": given}
    names = f"the catalog has the parts {', '.join(parts.names)}"
    if not isinstance(given, Mapping):
        raise SpecError(f"{names}: give a dict with a spec for each")
    if odd := [name for name in given if name not in parts.names]:
        raise SpecError(f"{names}: {odd[0]!r} is not one of them")
    if left := [name for name in parts.names if name not in given]:
        raise SpecError(f"{names}: give a spec for {left[0]!r} as well")
    for name in parts.names:
        if not isinstance(given[name], ClipSpec):
            what = f"part {name!r}" if name else "clip"
            raise SpecError(f"{what} must be a ClipSpec, got {given[name]!r}")
    clips = {name: given[name] for name in parts.names}
    if (first := clips[parts.names[0]]).sampling is None:
        clips[parts.names[0]] = replace(first, sampling="random" if shuffle else "center")
    return SampleSpec(clips, parts.by, dict(parts.offsets_s) or None)
