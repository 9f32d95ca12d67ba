"""What a sample is: a clip, an item, or several of them side by side.

Plan, leases, slots and transport only know what all kinds have in common: the bytes of a sample,
and how arrays view them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeGuard, TypeVar, cast

import numpy as np
import numpy.typing as npt

from videoload.arguments import default_of, real
from videoload.clips.clip_spec import ClipSpec, sound_places
from videoload.clips.item_spec import ItemSpec, record_of
from videoload.clips.layouts import aligned, array_bytes, as_arrays
from videoload.errors import SpecError

By = Literal["time", "frames"]

# What is the part's own. All else is drawn once, as the first clip's spec says.
_OWN = (
    "frames", "resize", "size", "pixels", "transform", "output", "rotate", "square_pixels",
    "jitter", "grayscale", "scaling", "images_fps", "sound", "sound_channels", "offsets",
)  # fmt: skip
_DRAWN = tuple(field for field in fields(ClipSpec) if field.name not in _OWN)


class Sides(NamedTuple):
    """How the files of a sample lie beside each other: see `Catalog.side_by_side`.

    Attributes:
        names: The parts, in the order of a video's paths.
        by: Whether parts show what was at the same ``"time"``, or ``"frames"`` of the same number.
        offsets_s: When the file of a part begins, in seconds after that of the first clip.
    """

    names: tuple[str, ...]
    by: By = "time"
    offsets_s: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """Several files as one sample: a spec for each part. A stream makes it of a dict of specs.

    The first ClipSpec leads: what is drawn is drawn for it. The others show what was at the same
    time (or the frames of the same number), in the same relative part of their frames.

    Attributes:
        names: The parts, in the order of a video's paths.
        clips: The specs of those that are clips, at least one.
        items: The specs of the others.
        by: As in `Sides`.
        offsets_s: As in `Sides`.

    Raises:
        SpecError: The specs contradict each other.
    """

    names: tuple[str, ...]
    clips: dict[str, ClipSpec]
    items: dict[str, ItemSpec]
    by: By = "time"
    offsets_s: dict[str, float] | None = None

    def __post_init__(self) -> None:
        if {*self.names} != {*self.clips, *self.items} or {*self.clips} & {*self.items}:
            raise SpecError("a sample needs one spec for each part")
        if not self.clips:
            raise SpecError("one part of a sample must be a clip (ClipSpec)")
        led = {name: self._led(name, self.clips[name]) for name in self.names if name in self.clips}
        object.__setattr__(self, "clips", led)
        odd = [name for name, clip in led.items() if clip.size is None]
        if 0 < len(odd) < len(led):
            raise SpecError(f"other clips of the sample have a size: give size= to {odd[0]!r}")
        for name, item in self.items.items():
            if not item.files or isinstance(item.shape, dict):
                raise SpecError(f"part {name!r} must make one array of a file")
        self._check_sound()
        offsets = self.offsets_s or {}
        if unknown := {*offsets} - {*self.names}:
            raise SpecError(f"offset_s names {min(unknown)!r}, which is no part")
        for name, seconds in offsets.items():
            real(f"offset_s of {name!r}", seconds, -1e9, 1e9)
        if self.by == "frames" and any(offsets.values()):
            raise SpecError('offset_s is in seconds: leave by="frames" out')

    def _check_sound(self) -> None:
        heard = [name for name, clip in self.clips.items() if clip.sound is not None]
        if len(heard) > 1:
            raise SpecError(f"one part may have sound: leave it out of {' or '.join(heard)}")
        if heard and "sound" in self.names:
            raise SpecError(f"the sound of part {heard[0]!r} is named 'sound': rename that part")
        if heard and self.clips[heard[0]].frames != self.leader.frames:
            raise SpecError(
                f"the part with sound must have as many frames as part {self.leading!r}"
            )

    def _led(self, name: str, spec: ClipSpec) -> ClipSpec:
        """The spec of a part with what the leader draws. Raises SpecError if it says otherwise."""
        first = self.clips[self.leading]
        if spec is first:
            return first
        if spec.offsets is not None:
            raise SpecError(f"offsets are drawn for part {self.leading!r}: give frames to {name!r}")
        for field in _DRAWN:
            own = getattr(spec, field.name)
            if own not in (default_of(field, spec), getattr(first, field.name)):
                raise SpecError(
                    f"{field.name} is drawn for part {self.leading!r}: leave {field.name}={own!r} "
                    f"out of part {name!r}"
                )
        if first.max_frames is not None and spec.frames != first.frames:
            raise SpecError(
                f"part {self.leading!r} has clips of any length: give {name!r} the same max_frames"
            )
        drawn = {field.name: getattr(first, field.name) for field in _DRAWN}
        try:
            return replace(spec, **drawn)
        except SpecError as error:
            raise SpecError(
                f"part {name!r}, with what part {self.leading!r} draws: {error}"
            ) from None

    def __hash__(self) -> int:
        return hash((self.names, *self.clips.values()))  # a dict cannot be hashed

    @property
    def leading(self) -> str:
        """Name of the part that leads."""
        return next(name for name in self.names if name in self.clips)

    @property
    def leader(self) -> ClipSpec:
        """The spec that leads."""
        return self.clips[self.leading]

    def spec_of(self, name: str) -> ClipSpec | ItemSpec:
        """The spec of a part."""
        return self.clips[name] if name in self.clips else self.items[name]

    def offset_s(self, name: str) -> float:
        """When the file of a part begins, in seconds after that of the leader."""
        offsets = self.offsets_s or {}
        return offsets.get(name, 0.0) - offsets.get(self.leading, 0.0)

    def shifted(self, offsets_s: Sequence[float]) -> SampleSpec:
        """This spec for files that begin later by these offsets, one for each part; [] for none.
        Raises ValueError."""
        if not offsets_s:
            return self
        own, new = self.offsets_s or {}, copy.copy(self)
        offsets = {
            name: own.get(name, 0.0) + more
            for name, more in zip(self.names, offsets_s, strict=True)
        }
        if not all(map(math.isfinite, offsets.values())):
            raise ValueError("an offset is not finite")
        object.__setattr__(new, "offsets_s", offsets)
        return new

    @property
    def shape(self) -> dict[str, tuple[int, ...]]:
        """Shape of each part's array, and of the sound."""
        return _flat({name: self.spec_of(name).shape for name in self.names})

    @property
    def dtype(self) -> dict[str, str]:
        """NumPy's name of each part's type, and of that of the sound."""
        return _flat({name: self.spec_of(name).dtype for name in self.names})

    @property
    def places(self) -> dict[str, slice]:
        """Where the bytes of each part are in those of a sample."""
        found, at = {}, 0
        for name in self.names:
            length = self.spec_of(name).clip_bytes
            found[name] = slice(at, at + length)
            at += aligned(length)
        return found

    @property
    def clip_bytes(self) -> int:
        """Bytes of one sample."""
        return aligned(self.places[self.names[-1]].stop)


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """Asks workers how many windows segments have, or frames for clips of any length, in the place
    of clips: an item is what `count_windows` gives, int64 [2]."""

    clip: ClipSpec | SampleSpec
    shape: tuple[int, ...] = (2,)
    dtype: str = "int64"

    @classmethod
    def of(cls, clip: ClipSpec | SampleSpec) -> WindowCounts:
        """What counts the windows of ``clip``: its fields that do not matter have defaults."""
        if isinstance(clip, ClipSpec):
            return cls(_windows_alone(clip))
        clips = {name: _windows_alone(part) for name, part in clip.clips.items()}
        return cls(replace(clip, clips=clips))

    @property
    def clip_bytes(self) -> int:
        """Bytes of one item."""
        return array_bytes(self.shape, self.dtype)


def _windows_alone(clip: ClipSpec) -> ClipSpec:
    return ClipSpec(
        clip.frames, clip.stride, clip.fps, size=(2, 2), sampling=clip.sampling, hop=clip.hop,
        short=clip.short, hop_s=clip.hop_s, images_fps=clip.images_fps, edges=clip.edges,
        max_frames=clip.max_frames,
    )  # fmt: skip


Spec = ClipSpec | ItemSpec | SampleSpec | WindowCounts
T = TypeVar("T", bound=Spec)
# What a caller gives: a dict for a catalog of several parts.
GivenSpec = Spec | Mapping[str, ClipSpec | ItemSpec]


def lacks_size(spec: Spec) -> TypeGuard[ClipSpec | SampleSpec]:
    """Whether clips have the size of the videos, which is not known yet."""
    leader = leader_of(spec)
    return isinstance(leader, ClipSpec) and leader.size is None


def leader_of(spec: Spec) -> ClipSpec | ItemSpec | WindowCounts:
    """The spec that decides how many samples a video gives, and which frames they show."""
    return spec.leader if isinstance(spec, SampleSpec) else spec


def with_frames(spec: T, frames: int) -> T:
    """The spec of the clips in a batch of so many frames each. It only differs for clips of any
    length."""
    if isinstance(spec, SampleSpec) and spec.leader.max_frames is not None:
        clips = {name: replace(clip, frames=frames) for name, clip in spec.clips.items()}
        return cast(T, replace(spec, clips=clips))
    if isinstance(spec, ClipSpec) and spec.max_frames is not None:
        return cast(T, replace(spec, frames=frames))
    return spec


def parts_of(spec: Spec) -> list[ClipSpec | ItemSpec | WindowCounts]:
    """The specs of all parts."""
    return [spec.spec_of(name) for name in spec.names] if isinstance(spec, SampleSpec) else [spec]


def reads_files(spec: Spec) -> bool:
    """Whether the catalog's paths are files."""
    return not isinstance(spec, ItemSpec) or spec.files


def frames_shape(spec: Spec) -> tuple[int, ...]:
    """Shape of a sample's frame numbers: (T,), or (k, T) for several views, those of the leader.
    Items have none."""
    clip = leader_of(spec)
    if not isinstance(clip, ClipSpec):
        return (0,)
    return (clip.frames,) if clip.views == 1 else (clip.views, clip.frames)


def arrays_of(spec: Spec, rows: npt.NDArray[np.uint8]) -> Any:
    """Samples as views of their bytes.

    Args:
        spec: What they are.
        rows: Their bytes, uint8 [..., clip_bytes], contiguous.

    Returns:
        An array [..., *shape] of the spec's dtype, or a dict of them.
    """
    if isinstance(spec, SampleSpec):
        places = spec.places.items()
        return _flat({name: arrays_of(spec.spec_of(name), rows[..., at]) for name, at in places})
    if isinstance(spec, ClipSpec) and spec.sound is not None:
        video, sound, *_ = sound_places(spec)
        parts = {"video": rows[..., video], "sound": rows[..., sound]}
        return {name: as_arrays(parts[name], spec.shape[name], spec.dtype[name]) for name in parts}
    if isinstance(spec, ItemSpec) and isinstance(spec.shape, dict):
        items = rows.view(record_of(spec))[..., 0]
        return {name: items[name] for name in spec.shape}
    return as_arrays(rows, cast("tuple[int, ...]", spec.shape), cast(str, spec.dtype))


def _flat(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The sound of a part as one more part."""
    found: dict[str, Any] = {}
    for name, each in parts.items():
        pair = each if isinstance(each, dict) else {"video": each}
        found |= {name if key == "video" else key: value for key, value in pair.items()}
    return found


def has_sound(spec: Spec) -> bool:
    """Whether its samples have sound."""
    return any(isinstance(part, ClipSpec) and part.sound is not None for part in parts_of(spec))


def heard_in(spec: Spec, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_] | None:
    """Whether the file of each sample has sound, bool [n]; None if the spec asks for none.

    Args:
        spec: What the samples are.
        rows: Their bytes, uint8 [n, spec.clip_bytes].
    """
    if isinstance(spec, SampleSpec):
        heard = (heard_in(clip, rows[:, spec.places[name]]) for name, clip in spec.clips.items())
        return next((found for found in heard if found is not None), None)
    if not isinstance(spec, ClipSpec) or not has_sound(spec):
        return None
    return np.not_equal(rows[:, sound_places(spec).told], 0)


def functions_of(spec: Spec) -> list[tuple[str, str]]:
    """The kind and the name of each of the user's functions that a spec names."""
    found: list[tuple[str, str]] = []
    for part in parts_of(spec):
        if isinstance(part, ItemSpec):
            found.append(("load function", str(part.load)))
        elif isinstance(part, ClipSpec) and part.transform is not None:
            found.append(("transform", str(part.transform)))
    return found


def in_stream(spec: T, *, shuffle: bool) -> T:
    """The spec in a stream: where it does not say how clips are sampled, they are drawn if the
    stream is shuffled. Raises SpecError."""
    if isinstance(spec, SampleSpec):
        clips = {name: in_stream(clip, shuffle=shuffle) for name, clip in spec.clips.items()}
        return cast(T, replace(spec, clips=clips))
    if isinstance(spec, ClipSpec) and spec.sampling is None:
        return cast(T, replace(spec, sampling="random" if shuffle else "center"))
    return spec


def sample_spec(sides: Sides | None, given: GivenSpec) -> Spec:
    """The spec of a stream: of a dict, if the catalog has ``sides``. Raises SpecError."""
    if sides is None:
        if isinstance(given, Mapping):
            raise SpecError(
                "a dict of specs is for several files as one sample: make the catalog with "
                "Catalog.side_by_side"
            )
        return given
    if isinstance(given, SampleSpec):  # made already
        return given
    names = f"the catalog has the parts {', '.join(sides.names)}"
    if not isinstance(given, Mapping):
        raise SpecError(f"{names}: give a dict with a spec for each")
    if odd := [name for name in given if name not in sides.names]:
        raise SpecError(f"{names}: {odd[0]!r} is none of them")
    if left := [name for name in sides.names if name not in given]:
        raise SpecError(f"{names}: give a spec for {left[0]!r} as well")
    if odd := [name for name in given if not isinstance(given[name], ClipSpec | ItemSpec)]:
        raise SpecError(f"part {odd[0]!r} must be a ClipSpec or an ItemSpec, got {given[odd[0]]!r}")
    clips = {name: spec for name, spec in given.items() if isinstance(spec, ClipSpec)}
    items = {name: spec for name, spec in given.items() if isinstance(spec, ItemSpec)}
    return SampleSpec(sides.names, clips, items, sides.by, dict(sides.offsets_s) or None)
