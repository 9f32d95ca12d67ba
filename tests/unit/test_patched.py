"""A client refuses a process whose threads or sockets are not the system's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from videoload import Client, VideoloadError


@pytest.mark.parametrize(
    ("module", "asks"),
    [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")],
)
def test_a_monkey_patch_is_named(module: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patched = {"select", "socket"}
    fake = ModuleType(module)
    setattr(fake, asks, patched.__contains__)
    monkeypatch.setitem(sys.modules, module, fake)
    name = module.partition(".")[0]
    with pytest.raises(VideoloadError, match=f"{name} has replaced socket, select of this process"):
        Client(workers=0, listen="tcp://127.0.0.1:*")
    patched.clear()
    Client(workers=0, listen="tcp://127.0.0.1:*").close()
