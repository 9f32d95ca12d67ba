"""Strangers at a trainer's port: they send what no worker would send, and belong to nobody."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

import msgspec
import zmq

from tests.faults.raw_peers import dealer
from tests.support.waiting import SECOND
from videoload.pixels.software import software_and_code
from videoload.transport.messages import VERSION

_READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
_PART = 4 << 20
_HELLO = {
    "type": "hello",
    "worker": "w",
    "host": "h",
    "pid": 1,
    "software": software_and_code(),
    "token": "",
}


def poison(endpoint: str, seed: int) -> None:
    """Messages that almost follow the protocol, with contents that may break a program."""
    draw = random.Random(seed)
    messages = [
        {**_HELLO, "token": "\N{SNOWMAN}"},
        {**_HELLO, "token": "\0" * 256},
        {**_HELLO, "pid": draw.choice([-1, 0, 2**63 - 1, 2**63, 2**64 - 1])},
        {**_HELLO, "host": "\N{SNOWMAN}" * 256, "worker": "a\nb\x1b[31m"},
        {"type": "result", "lease": draw.getrandbits(64), "frames": [[2**63]]},
        {"type": "result", "lease": 1, "frames": [[0] * 5000] * 100, "files": [2**64 - 1]},
        {"type": "compared", "stream": 2**64 - 1, "files": {2**64 - 1: 2**64 - 1}},
        {"type": "failed", "lease": 1, "at": 2**64 - 1, "reason": "x" * 4096},
        {"type": "bye", "reason": "\ud83d\ude00".encode("utf-16", "surrogatepass")},
    ]
    bodies = [msgspec.msgpack.encode(message) for message in messages]
    bodies += [b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b""]
    draw.shuffle(bodies)
    with dealer(endpoint, linger_ms=0) as made:
        for body in bodies:
            made.send_multipart([VERSION, body])
            if draw.random() < 0.3:
                made.send_multipart([VERSION, msgspec.msgpack.encode(_HELLO)])
        with suppress(zmq.Again):
            while made.poll(int(200 * SECOND)):
                made.recv_multipart(zmq.DONTWAIT)


def endless(endpoint: str, most_mb: int) -> int:
    """Send one message with endless parts over a bare socket. Returns how many MB of it were
    accepted before the other side hung up; sends at most about ``most_mb``."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    sent = 0
    with suppress(OSError), socket.create_connection((host, int(port)), 10 * SECOND) as made:
        made.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0"))
        made.sendall(bytes([4, len(_READY)]) + _READY)
        part = b"\x03" + _PART.to_bytes(8, "big") + bytes(_PART)  # more follows; a long frame
        while sent < most_mb << 20:
            made.sendall(part)
            sent += _PART
    return sent >> 20
