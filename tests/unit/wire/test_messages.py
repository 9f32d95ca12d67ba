"""Messages arrive equal to what was sent. Anything else is refused, also from the other side."""

import hashlib
import json
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.clips.choices import WHOLE_FRAME, Crop, Pixels, Short, Span
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import By, SampleSpec, one_clip
from videoload.clips.step_times import StepTimes
from videoload.clips.tasks import (
    Count,
    FileReport,
    Fingerprint,
    Identify,
    Report,
    Task,
    WindowCount,
)
from videoload.errors import Fault, ProtocolError
from videoload.wire.messages import (
    VERSION,
    Bye,
    Failed,
    FromTrainer,
    FromWorker,
    Heartbeat,
    Hello,
    Lease,
    Notice,
    Place,
    Refused,
    Result,
    Timings,
    Welcome,
    encode,
    pack,
    unpack_from_trainer,
    unpack_from_worker,
)
from videoload.wire.private_messages import (
    Private,
    Share,
    Unshare,
    WorkerSettings,
    unpack_private,
)

patient = settings(deadline=None, max_examples=either(40, 150))


NUMBERS = st.integers(0, 2**63 - 1)
SEEDS = st.integers(0, 2**64 - 1)
COUNTS = st.integers(1, 2**31 - 1)  # that a spec may have
WORDS = st.text(max_size=20)


SHAPES = st.lists(st.integers(1, 1000), max_size=3).map(tuple)
TYPES = st.sampled_from(["bool", "uint8", "float16", "float32", "float64", "int64", "complex64"])


@st.composite
def specs(draw: st.DrawFn) -> ClipSpec:
    height, width = draw(st.integers(1, 500)) * 2, draw(st.integers(1, 500)) * 2
    span = draw(st.sampled_from(get_args(Span)))
    fps = draw(st.none() | st.floats(0.001, 1000)) if span == "window" else None
    crop = draw(st.sampled_from(get_args(Crop)))
    ranges: dict[str, Any] = {}
    if crop == "resized":
        ends = st.lists(st.floats(0.001, 1), min_size=2, max_size=2).map(sorted).map(tuple)
        ranges = {"area": draw(ends), "ratio": draw(ends)}
    resize = None
    if crop not in WHOLE_FRAME:
        least = max(height, width) // 2
        resize = draw(st.none() | st.integers(least, 1000).map(lambda n: 2 * n))
    several = crop in ("center", "random", "pad") and resize is None and draw(st.booleans())
    views = draw(COUNTS)
    transform = draw(st.none() | st.just("package.module:function"))
    return ClipSpec(
        frames=draw(COUNTS),
        stride=1 if fps is not None or span == "video" else draw(COUNTS),
        fps=fps,
        resize=resize,
        size=[(height, width), (height, width + 2)] if several else (height, width),
        crop=crop,
        flip=views > 1 or draw(st.booleans()),
        sampling=draw(st.sampled_from(["random", "center", "uniform"])),
        clips_per_video=draw(COUNTS),
        transform=transform,
        short=draw(st.sampled_from(get_args(Short)).filter(lambda each: each != "cut")),
        pixels=draw(st.sampled_from(get_args(Pixels))),
        span=span,
        views=views,
        align=draw(st.sampled_from([None, "keyframe"])) if span == "window" else None,
        rotate=draw(st.booleans()),
        output=None if transform is None else draw(st.none() | st.tuples(SHAPES, TYPES)),
        **ranges,
    )


NAMES = st.text(min_size=1, max_size=10)
SIZES = st.tuples(NUMBERS, NUMBERS)
FOUND = st.one_of(
    st.builds(WindowCount, NUMBERS, NUMBERS, SIZES, st.lists(SIZES, max_size=4)),
    st.builds(FileReport, frames=NUMBERS, width=NUMBERS, height=NUMBERS, fps=st.floats(0, 1e9),
              container=WORDS, codec=WORDS, pixels=WORDS, header_frames=NUMBERS, packets=NUMBERS,
              key_frames=NUMBERS, sound=WORDS, damage=WORDS, fingerprint=WORDS, file_bytes=NUMBERS),
    st.builds(Fingerprint, NUMBERS),
)  # fmt: skip


@st.composite
def sample_specs(draw: st.DrawFn) -> SampleSpec:
    leading = draw(specs())
    names = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    return SampleSpec(dict.fromkeys(names, leading), draw(st.sampled_from(get_args(By))))


SPECS = specs().map(one_clip) | sample_specs()
TASKS = SPECS | SPECS.map(Count) | st.just(Report()) | st.just(Identify())
TIMES = st.none() | st.floats(0, 1e9)
STEPS = st.builds(
    StepTimes, st.integers(1, 1 << 22), st.floats(0.1, 1e6),
    st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=6).map(tuple), st.floats(0, 1e9),
    st.lists(st.floats(), min_size=2, max_size=2).map(lambda run: np.array(run).tobytes()), NUMBERS,
)  # fmt: skip
ROWS = st.builds(
    Video, WORDS, start=NUMBERS, end=st.none() | NUMBERS, start_s=TIMES, end_s=TIMES,
    at=st.none() | NUMBERS, at_s=TIMES, steps=st.none() | STEPS, places=st.binary(max_size=64),
)  # fmt: skip
CLIP = st.builds(Clip, SEEDS, NUMBERS, st.just(0), ROWS)
BYE = st.builds(Bye, reason=WORDS)
HEARTBEAT = st.builds(Heartbeat, lease=NUMBERS)
FROM_WORKER: st.SearchStrategy[FromWorker] = st.one_of(
    st.builds(Hello, worker=WORDS, host=WORDS, pid=NUMBERS, software=WORDS, token=WORDS),
    st.builds(
        Result,
        lease=NUMBERS,
        info=st.binary(),
        decode_s=st.floats(0, 1e9),
        spent=st.builds(Timings, *[st.floats(0, 1e9)] * 10),
        clip_s=st.lists(st.floats(0, 1e9), max_size=4),
        found=st.lists(FOUND, max_size=2),
    ),
    st.builds(
        Failed, lease=NUMBERS, at=NUMBERS, reason=WORDS, fault=st.sampled_from(Fault), file=NUMBERS
    ),
    HEARTBEAT,
    BYE,
)
FROM_TRAINER: st.SearchStrategy[FromTrainer] = st.one_of(
    st.builds(Welcome, beat_s=st.floats(0.001, 1e9)),
    st.builds(Refused, reason=WORDS),
    st.builds(
        Lease,
        lease=NUMBERS,
        task=TASKS,
        clips=st.lists(CLIP, min_size=1, max_size=3),
        place=st.none() | st.builds(Place, arena=NUMBERS, offset=NUMBERS),
    ),
    HEARTBEAT,
    BYE,
)
PRIVATE: st.SearchStrategy[Private] = st.one_of(
    st.builds(
        WorkerSettings,
        trainers=st.lists(WORDS, min_size=1, max_size=3),
        root=st.none() | WORDS,
        token=WORDS,
        keys=st.none() | WORDS,
        insecure=st.booleans(),
        transforms=st.none() | st.lists(WORDS, max_size=3),
    ),
    st.builds(Share, arena=NUMBERS, root=st.binary()),
    st.builds(Unshare, arena=NUMBERS),
)
SPEC = ClipSpec(frames=2, size=(4, 4))
LEASE = Lease(1, one_clip(SPEC), [Clip(2, row=Video("a.avi"))])


def body(**fields: Any) -> list[bytes]:
    """A message with these fields, packed by hand."""
    return [VERSION, msgspec.msgpack.encode(fields)]


def changed(message: FromWorker | FromTrainer, **fields: Any) -> list[bytes]:
    """A valid message with these fields replaced."""
    return body(**msgspec.msgpack.decode(pack(message)[1]) | fields)


def taken(frames: list[bytes]) -> None:
    """Unpack as either side would. Nothing but ProtocolError may be raised."""
    for unpack in (unpack_from_worker, unpack_from_trainer):
        try:
            unpack(frames)
        except ProtocolError as error:
            assert str(error)  # noqa: PT017 - it is the only error allowed, not the one expected


# Round trips


@patient
@given(FROM_WORKER, FROM_TRAINER, PRIVATE)
def test_a_message_arrives_unchanged(
    from_worker: FromWorker, from_trainer: FromTrainer, private: Private
) -> None:
    for message, arrived in (
        (from_worker, unpack_from_worker(pack(from_worker))),
        (from_trainer, unpack_from_trainer(pack(from_trainer))),
        (private, unpack_private(encode(private))),
    ):
        assert arrived == message
        assert type(arrived) is type(message)


@pytest.mark.parametrize(
    ("unpack", "message"),
    [
        (unpack_from_worker, Heartbeat(storage="s3://bucket/" + "folder/" * 200 + ": 403")),
        (
            unpack_from_trainer,
            Lease(1, one_clip(SPEC), [Clip(2, row=Video("a.avi", start_s=1.7e9))]),
        ),
    ],
)
def test_what_a_spec_a_root_or_a_table_may_ask_for_is_no_garbage(unpack: Any, message: Any) -> None:
    assert unpack(pack(message)) == message


def test_other_messages_have_another_version() -> None:
    def bare(schema: Any) -> Any:
        if isinstance(schema, dict):
            words = ("title", "description", "minItems")  # versions of msgspec differ in it
            found = {name: bare(value) for name, value in schema.items() if name not in words}
            found.get("anyOf", []).sort(key=str)
            return found
        return [*map(bare, schema)] if isinstance(schema, list | tuple) else schema

    types = bare(msgspec.json.schema_components([FromWorker, FromTrainer, Task]))
    digest = hashlib.sha256(json.dumps(types, sort_keys=True).encode()).hexdigest()
    assert (VERSION, digest[:8]) == (b"videoload/12", "0be27014"), (
        "the messages are others: note their digest here, and raise VERSION, unless it is as new "
        "as they are"
    )


# Anything else


@settings(deadline=None, max_examples=either(80, 300))
@given(message=st.one_of(FROM_WORKER, FROM_TRAINER), data=st.data())
def test_a_message_with_changed_bytes_is_read_or_raises_a_protocol_error(
    message: FromWorker | FromTrainer, data: st.DataObject
) -> None:
    whole = bytearray(msgspec.msgpack.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        assume(whole)
    taken([VERSION, bytes(whole)])


@pytest.mark.parametrize("length", [b"\xdd\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff"])
def test_a_list_that_claims_to_be_huge_takes_no_memory(length: bytes) -> None:
    head = b"\x83\xa4type\xa6result\xa5lease\x01\xa6frames"
    for start in (head + length, head + b"\x91" + length):
        with pytest.raises(ProtocolError):
            unpack_from_worker([VERSION, start])


def test_a_message_nested_without_end_is_refused() -> None:
    for nested in (b"\x91" * 100_000, b"\x81\xa1a" * 100_000, b"\x82\xa1a" + b"\x91" * 100_000):
        taken([VERSION, nested])
        with pytest.raises(ProtocolError):
            unpack_from_worker([VERSION, nested])


# Versions and frames


@pytest.mark.parametrize("unpack", [unpack_from_worker, unpack_from_trainer])
@pytest.mark.parametrize("version", [b"", b"videoload/1", b"videoload/30", b"GET / HTTP/1.1"])
def test_another_version_is_refused_and_both_are_named(unpack: Any, version: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        unpack([version, pack(Bye("x"))[1]])
    assert repr(version) in str(caught.value)
    assert repr(VERSION) in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_a_workers_message_has_two_frames(count: int) -> None:
    frames = [*pack(Bye("x")), b"", b""][:count]
    with pytest.raises(ProtocolError, match=f" {count}$" if count else "b''"):
        unpack_from_worker(frames)


# Who may send what


HELLO = Hello("w", "h", 1, "s")
RESULT = Result(1, b"")
FAILED = Failed(1, 0, "no")
SETTINGS = WorkerSettings(["tcp://h:1"], root="/")


@pytest.mark.parametrize(
    ("message", "readers"),
    [
        *((each, [unpack_from_trainer]) for each in (HELLO, RESULT, FAILED)),
        *((each, [unpack_from_worker]) for each in (Welcome(1.0), Refused("no"), LEASE)),
        *((each, [unpack_from_worker, unpack_from_trainer])
          for each in (SETTINGS, Share(1, b"/"), Unshare(1))),
    ],
)  # fmt: skip
def test_nobody_can_send_what_another_side_says(message: Any, readers: list[Any]) -> None:
    for unpack in readers:
        with pytest.raises(ProtocolError):
            unpack([VERSION, encode(message)])


# Fields that cannot be meant


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "settings", "trainers": []},
        {"type": "share", "arena": -1, "root": "/"},
        {"type": "unshare", "arena": 1, "root": "/"},
    ],
)
def test_an_invalid_field_of_a_private_message_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        unpack_private(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (HELLO, {"worker": "w" * 257}), (HELLO, {"pid": True}), (HELLO, {"type": "hullo"}),
        (RESULT, {"found": [{"type": "windows", "windows": -1}]}), (RESULT, {"found": [0]}),
        (RESULT, {"info": [[0]]}), (RESULT, {"spent": [0.0] * 11}),
        (FAILED, {"fatal": 1}), (Bye("x"), {"reason": "r" * 4097}),
    ],
)  # fmt: skip
def test_an_invalid_field_of_a_workers_message_is_refused(
    message: FromWorker, fields: dict[str, Any]
) -> None:
    assert unpack_from_worker(changed(message)) == message
    with pytest.raises(ProtocolError, match=r"\A[^\n]+\Z"):
        unpack_from_worker(changed(message, **fields))


def clip_with(**fields: Any) -> dict[str, Any]:
    row = Video("a.avi", start_s=fields.pop("start_s", None))
    return {"clips": [msgspec.to_builtins(Clip(2, row=row, **fields))]}


def stepped(*fields: Any) -> dict[str, Any]:
    found = clip_with()
    found["clips"][0][3]["t"] = list(fields)
    return found


def spec_with(**fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(SPEC)
    return {"task": {"type": "clips", "clips": {"": made | fields}}}


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (Welcome(1.0), {"beat_s": 0.0}),
        (LEASE, {"clips": []}),
        (LEASE, clip_with(crop=1)),  # it has one crop, number 0
        (LEASE, clip_with(crop=3) | spec_with(crop="three")),
        (LEASE, clip_with(start_s=float("nan"))),
        (LEASE, stepped(3, 10.0, [], 0.1, bytes(16), 0)),
        (LEASE, stepped(3, 10.0, [0.0], 0.1, bytes(24), 0)),
        (LEASE, stepped(1 << 40, 10.0, [0.0], 0.1, bytes(16), 0)),
        (LEASE, stepped(3, 0.0, [0.0], 0.1, bytes(16), 0)),
        (LEASE, {"clips": [{"path": "a.avi", "seed": 2}]}),
        (LEASE, {"place": {"arena": 0, "offset": 0, "root": "/"}}),
        (LEASE, {"task": None}),
        (LEASE, {"task": {"type": "delete"}}),
        (LEASE, {"task": {"type": "report", "path": "/etc/passwd"}}),
        (LEASE, {"task": {"type": "count", "clip": None}}),
        (LEASE, spec_with(frames=0)),
        (LEASE, spec_with(size=None)),
        (LEASE, spec_with(transform="os.path:join; x")),
        (LEASE, spec_with(transform="__main__:f")),
        (LEASE, spec_with(fps=10.0, stride=2)),
        (LEASE, spec_with(span="video", stride=2)),
        (LEASE, spec_with(crop="resized", area=[0.0, 1.0])),
        (LEASE, spec_with(transform="a:f", output=[[4], "object"])),
        (LEASE, spec_with(transform=None, output=[[4], "float32"])),
    ],
)
def test_an_invalid_field_of_a_trainers_message_is_refused(
    message: FromTrainer, fields: dict[str, Any]
) -> None:
    assert unpack_from_trainer(changed(message)) == message
    assert unpack_from_trainer(changed(LEASE, **clip_with(), **spec_with())) == LEASE
    unpack_from_trainer(changed(LEASE, **stepped(3, 10.0, [0.0], 0.1, bytes(16), 0)))
    with pytest.raises(ProtocolError, match=r"\A[^\n]+\Z"):
        unpack_from_trainer(changed(message, **fields))


# Control characters


ESCAPES = "\x1b[2J\x1b]0;owned\x07 \r\n\x9b31m\u202e\u2028 x"
SHOWN = r"\x1b[2J\x1b]0;owned\x07 \r\n\x9b31m\u202e\u2028 x"


@pytest.mark.parametrize(
    ("unpack", "message", "field"),
    [
        *((unpack_from_worker, HELLO, each) for each in ("worker", "host", "software", "copy")),
        *((unpack_from_worker, each, "reason") for each in (FAILED, Bye("x"))),
        *((unpack_from_trainer, each, "reason") for each in (Refused("no"), Bye("x"))),
        (unpack_from_trainer, Notice("x"), "text"),
    ],
)
def test_words_have_no_control_characters_left(unpack: Any, message: Any, field: str) -> None:
    arrived = unpack(changed(message, **{field: ESCAPES}))
    assert getattr(arrived, field) == SHOWN
    assert unpack(pack(arrived)) == arrived


def test_paths_of_leases_stay_as_they_are() -> None:
    arrived = unpack_from_trainer(pack(Lease(1, one_clip(SPEC), [Clip(2, row=Video(ESCAPES))])))
    assert isinstance(arrived, Lease)
    assert arrived.clips[0].row.path == ESCAPES


def test_escaped_words_are_no_longer_than_a_message_may_hold() -> None:
    for message in (Hello("w", "\x1b" * 256, 1, "s"), Failed(1, 0, "\x1b" * 4096)):
        assert unpack_from_worker(pack(message)) == message


def test_the_name_of_an_unknown_field_is_shown_without_control_characters() -> None:
    with pytest.raises(ProtocolError) as caught:
        unpack_from_worker(changed(HELLO, **{ESCAPES: 1}))
    assert str(caught.value).isprintable()
