"""A ZeroMQ context, and what the system must allow for it.

libzmq ends the whole process (SIGABRT) if it cannot start a thread, read and set its scheduling, or
get an eventfd. Containers and batch systems forbid each of these at times. So all of it is tried
first.
"""

from __future__ import annotations

import os
import select
import threading

import zmq

from videoload.errors import TransportError
from videoload.host import NO_THREAD


def new_context(io_threads: int = 1) -> zmq.Context[zmq.Socket[bytes]]:
    """Return a context with so many threads for its connections. Raises TransportError if this
    system does not allow what it needs."""
    _try_threads(io_threads + 1)  # one more closes sockets
    _try_calls()
    return zmq.Context(io_threads)


def _try_threads(count: int) -> None:
    over = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        raise TransportError(NO_THREAD) from None
    finally:
        over.set()
        for thread in started:
            thread.join()


def _try_calls() -> None:
    call = "eventfd"
    try:
        os.close(os.eventfd(0, os.EFD_CLOEXEC))
        call = "epoll_create"
        select.epoll().close()
        call = "sched_getscheduler"
        policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
        call = "sched_setscheduler"
        os.sched_setscheduler(0, policy, parameters)
    except OSError as error:
        raise TransportError(
            f"this system forbids {call} ({error.strerror}), which ZeroMQ needs: allow "
            "it in the sandbox or the seccomp profile of the container"
        ) from None
