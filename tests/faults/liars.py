"""Workers that lie, played by the test, in any field of any message and in the pixels.

A lie is what an honest worker would say at that moment, with a field or two replaced: by something
of the same kind, of another kind, too large, or true of another worker. No liar here knows the
fingerprint of a file that it does not have. A worker that has the files, names the right one and
sends other pixels cannot be told from an honest one.
"""

import random
import threading
from collections import Counter
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.faults.raw_peers import dealer
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec
from videoload.decoding.software import software_and_code
from videoload.wire.messages import VERSION, FromTrainer, Lease, Refused, unpack_from_trainer

# The fields of each message, as in messages.py; a test compares the two.
FIELDS: dict[str, tuple[str, ...]] = {
    "hello": ("worker", "host", "pid", "software", "token", "copy", "fetches"),
    "result": ("lease", "info", "decode_s", "files", "spent", "clip_s", "kept", "no_room",
               "found"),
    "failed": ("lease", "at", "reason", "fault", "file"),
    "heartbeat": ("lease", "at", "storage", "storage_s"),
    "bye": ("reason", "storage_unavailable"),
}  # fmt: skip
PIXELS = ("right", "none", "short", "long", "two frames")

NUMBERS = [0, 1, 2, -1, 255, 4096, 2**31, 2**47, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
OTHERS: list[Any] = [
    None, True, -1.0, 0.5, 1e300, float("inf"), float("nan"), "", "x" * 257, "y" * 5000,
    "\N{SNOWMAN}" * 9, "a\0b", b"\xff\xfe", [], [[]], [[0]], [[2**63]], [[[]]], {}, {"a": 1},
    {0: 0}, {2**63: 2**63}, [1, 2**63 - 1, 2**63 - 1], [4096, 0, 0], [0] * 5000, [[0] * 4] * 4097,
]  # fmt: skip
VALUES: list[Any] = NUMBERS + OTHERS


class Liar:
    """A liar that has dialled in, with the leases that it was given. Used by one thread."""

    def __init__(self, endpoint: str, name: str) -> None:
        self._dealing = dealer(endpoint, linger_ms=0)
        self._socket = self._dealing.__enter__()
        self.name = name
        self.leases: dict[int, Lease] = {}
        self.refused = 0
        self.say("hello")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._dealing.__exit__(None, None, None)

    def hear(self, timeout_ms: int = 0) -> None:
        """Read what the trainer has said. A refused liar dials in again as another one."""
        while self._socket.poll(timeout_ms):
            timeout_ms = 0
            message: FromTrainer = unpack_from_trainer(self._socket.recv_multipart())
            if isinstance(message, Lease):
                self.leases[message.lease] = message
            elif isinstance(message, Refused):
                self.refused += 1
                self.leases.clear()
                self.say("hello", worker=f"{self.name}.{self.refused}")

    def say(self, kind: str, pixels: str = "right", **replaced: Any) -> None:
        """Send a message of that kind about what is owed, with these fields replaced."""
        lease = next(iter(self.leases.values()), None)
        message = {**self._honest(kind, lease), **replaced}
        frames = [VERSION, msgspec.msgpack.encode({"type": kind, **message})]
        if kind == "result" and lease is not None:
            size = len(lease.clips) * lease.task.clip_bytes
            frames += [] if not size else {
                "right": [b"\x5a" * size], "none": [], "short": [bytes(size - 1)],
                "long": [bytes(size + 1)], "two frames": [bytes(size), b"more"],
            }[pixels]  # fmt: skip
        if kind in ("result", "failed") and lease is not None and "lease" not in replaced:
            del self.leases[lease.lease]
        self._socket.send_multipart(frames)

    @property
    def info_bytes(self) -> int:
        """How much there is to tell of the clips of its next lease."""
        lease = next(iter(self.leases.values()), None)
        if lease is None or not isinstance(lease.task, SampleSpec):
            return 0
        return len(lease.clips) * info_type(lease.task).itemsize

    def _honest(self, kind: str, lease: Lease | None) -> dict[str, Any]:
        rows = 1 if lease is None else len(lease.clips)
        number = 10**9 if lease is None else lease.lease
        honest: dict[str, dict[str, Any]] = {
            "hello": {
                "worker": self.name, "host": self.name, "pid": 1, "software": software_and_code(),
                "token": "", "copy": self.name, "fetches": False,
            },
            "result": {
                "lease": number, "info": bytes(self.info_bytes), "decode_s": 0.01,
                "files": [12345] * rows, "spent": [0.0] * 10, "clip_s": [0.01] * rows,
            },
            "failed": {
                "lease": number, "at": 0, "reason": "is not a video", "fault": "video",
                "file": 12345,
            },
            "heartbeat": {"lease": 1},
            "bye": {"reason": "tired", "storage_unavailable": False},
        }  # fmt: skip
        return honest[kind]


def lie(endpoint: str, seed: int, told: Counter[str], over: threading.Event) -> None:
    """Dial in and lie about all that is asked for, with a field or two of any message replaced;
    hang up now and then, whatever is owed. ``told``: how often something was answered."""
    r = random.Random(seed)
    while not over.is_set():
        with Liar(endpoint, f"liar{seed}.{r.getrandbits(32)}") as liar:
            for _ in range(r.randrange(1, 40)):
                if over.is_set():
                    break
                liar.hear(20)
                kind = r.choice(["result", "failed", *([] if liar.leases else FIELDS)])
                told[kind] += bool(liar.leases)
                lies = {f: r.choice(VALUES) for f in r.sample(FIELDS[kind], r.randint(0, 2))}
                if "info" in lies and r.random() < 0.5:  # of the right length
                    lies["info"] = r.randbytes(liar.info_bytes)
                liar.say(kind, r.choice(PIXELS), **lies)
