"""Asks a trainer what it is doing: one question, one answer, one connection."""

from __future__ import annotations

import os
import time

import zmq

from videoload.errors import ProtocolError, TransportError
from videoload.transport.context import new_context
from videoload.transport.messages import Bye, Refused, Snapshot, Watch
from videoload.transport.sockets import Dealer, check_dial

_AGAIN_MS = 250  # a trainer that is asked by too many does not answer: ask again


def watch(
    endpoint: str,
    *,
    keys: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    timeout_s: float = 5.0,
) -> Snapshot:
    """What the trainer at ``endpoint`` is doing. Needs keys if workers need them. Raises
    TransportError if it cannot be reached, does not answer, or answers something else."""
    check_dial(endpoint, keys=keys, insecure=insecure)
    context = new_context()
    try:
        dealer = Dealer(context, endpoint, keys=keys, insecure=insecure)
        try:
            return _ask(dealer, endpoint, keys is not None, time.monotonic() + timeout_s)
        finally:
            dealer.close()
    finally:
        context.term()


def _ask(dealer: Dealer, endpoint: str, has_keys: bool, deadline: float) -> Snapshot:
    asked = False
    while (left_ms := int(1000 * (deadline - time.monotonic()))) > 0:
        # It is writable once there is a connection.
        if not dealer.socket.poll(min(left_ms, _AGAIN_MS), zmq.POLLOUT):
            continue
        asked = dealer.send(Watch()) or asked
        if not dealer.socket.poll(min(left_ms, _AGAIN_MS)):
            continue
        try:
            answer = dealer.receive()
        except ProtocolError as error:
            raise TransportError(f"the trainer at {endpoint}: {error}") from None
        if isinstance(answer, Snapshot):
            return answer
        if isinstance(answer, Refused | Bye):
            raise TransportError(f"the trainer at {endpoint}: {answer.reason}")
    else_ = "does not know this key" if has_keys else "has keys: give --keys"
    what = "does not answer" if asked else f"cannot be reached (or {else_})"
    raise TransportError(f"the trainer at {endpoint} {what}")
