"""What tests of several rooms use."""

from collections.abc import Iterator

import pytest
import zmq


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """Its end waits for all sockets that are open."""
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.term()
