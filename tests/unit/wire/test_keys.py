"""CURVE keys: each side has its own secret key, and only admitted keys are let in."""

import itertools
import os
import stat
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import zmq
import zmq.auth

from tests.support.limits import limited_files
from tests.support.waiting import SECOND, wait_until
from videoload.errors import ProtocolError, TransportError
from videoload.wire.keys import (
    TRAINER,
    WORKER,
    KeyAuthenticator,
    load_key,
    make_keys,
    own_keys,
)
from videoload.wire.messages import Heartbeat
from videoload.wire.sockets import Dealer, Router


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of a trainer and its workers."""
    return make_keys(tmp_path / "keys")


# Files


def test_each_side_has_its_own_secret_and_the_others_public_key(keys: tuple[Path, Path]) -> None:
    trainer, worker = keys
    files = {
        path.relative_to(trainer.parent).as_posix()
        for path in trainer.parent.rglob("*")
        if path.is_file()
    }
    assert files == {
        "trainer/trainer.key_secret", "trainer/admitted/worker.key",
        "worker/worker.key_secret", "worker/trainer.key",
    }  # fmt: skip
    public, secret = own_keys(trainer, TRAINER)
    assert load_key(worker / "trainer.key") == (public, None)
    assert secret not in b"".join(path.read_bytes() for path in worker.iterdir())
    public, secret = own_keys(worker, WORKER)
    assert load_key(trainer / "admitted/worker.key") == (public, None)
    assert secret not in b"".join(p.read_bytes() for p in trainer.rglob("*") if p.is_file())


def test_a_secret_key_is_private_from_the_moment_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for change in ("os.chmod", "pathlib.Path.chmod"):
        monkeypatch.setattr(change, lambda *_, **__: pytest.fail("until now others could read it"))
    before = os.umask(0)
    try:
        folders = make_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    for folder, role in zip(folders, (TRAINER, WORKER), strict=True):
        assert stat.S_IMODE((folder / f"{role}.key_secret").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("come_just_now", [False, True])
@pytest.mark.parametrize("there", ["trainer", "worker"])
def test_keys_are_never_overwritten(
    there: str, come_just_now: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / there).mkdir()
    if come_just_now:  # after the look whether there are any
        monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(TransportError, match=str(tmp_path)):
        make_keys(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == [there]


def test_a_full_disk_leaves_no_half_made_keys(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with limited_files(100), pytest.raises(TransportError, match="File too large"):
        make_keys(tmp_path)  # there is room for public keys alone
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    make_keys(tmp_path)


@pytest.mark.parametrize("content", [None, "", "no key at all", "metadata\ncurve\n"])
def test_an_unusable_key_is_reported_with_what_to_do(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "worker.key_secret").write_text(content)
    with pytest.raises(TransportError, match=r"worker\.key_secret "):
        own_keys(tmp_path, WORKER)


def test_a_key_file_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    own, _ = make_keys(tmp_path)
    own_keys(own, TRAINER)
    with (own / f"{TRAINER}.key_secret").open("a") as file:
        file.write("\n#" * (1 << 20))
    with pytest.raises(TransportError, match=rf"{TRAINER}\.key_secret .*bytes"):
        own_keys(own, TRAINER)


# Who is let in


@pytest.mark.parametrize("has_keys", [True, False])
def test_both_sides_know_that_keys_do_not_fit(
    has_keys: bool, context: zmq.Context[zmq.Socket[bytes]], keys: tuple[Path, Path],
    tmp_path: Path,
) -> None:  # fmt: skip
    theirs = make_keys(tmp_path / "theirs")[1] if has_keys else None
    router, lines = Router(context, "tcp://127.0.0.1:*", keys=keys[0]), list[str]()
    dealer = Dealer(context, router.endpoint, keys=theirs)

    def is_known() -> bool:
        lines.extend(router.connections.inspect(time.monotonic())[0])
        dealer.hung_up()
        return dealer.was_refused and len(lines) == router.connections.rejected > 0

    try:
        wait_until(is_known, 30 * SECOND)
    finally:
        dealer.close()
        router.close()


def test_a_key_that_is_deleted_or_added_counts_at_once_and_for_open_connections(
    context: zmq.Context[zmq.Socket[bytes]], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    trainer, worker = keys
    lines: list[str] = []
    door = KeyAuthenticator(context, trainer, lines.append)
    router = Router(context, "tcp://127.0.0.1:*", keys=trainer, admits=door.admits)
    dealer = Dealer(context, router.endpoint, keys=worker)

    def reread(until: Callable[[], bool]) -> None:
        times = itertools.count(time.monotonic() + 10, 10)

        def is_so() -> bool:
            door.refresh(next(times))
            return until()

        wait_until(is_so, 30 * SECOND)

    def hear() -> object:
        wait_until(lambda: dealer.send(Heartbeat()), 30 * SECOND)
        assert router.socket.poll(int(30_000 * SECOND))
        got = router.receive()
        return got and got[1]

    try:
        assert door.socket.poll(int(30_000 * SECOND))
        door.answer()
        assert isinstance(hear(), Heartbeat)
        admitted = trainer / "admitted"
        other = make_keys(tmp_path / "other")[1]
        (admitted / "worker.key").unlink()
        public = own_keys(other, WORKER)[0]
        (other.parent / "trainer/admitted/worker.key").rename(admitted / "other.key")
        assert not door.callback("*", public)
        reread(lambda: door.callback("*", public))
        refused = hear()
        assert isinstance(refused, ProtocolError)
        assert str(admitted) in lines[-1]
        told = len(lines)
        assert door.rejected >= 1
        admitted.rename(tmp_path / "away")
        reread(lambda: len(lines) > told)
        assert door.callback("*", public), "a file server that is away ends no training"
    finally:
        dealer.close()
        router.close()
        door.close()


def test_a_folder_that_goes_away_while_it_is_read_turns_nobody_away(
    context: zmq.Context[zmq.Socket[bytes]], keys: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trainer, worker = keys
    lines: list[str] = []
    door = KeyAuthenticator(context, trainer, lines.append)
    listdir = os.listdir

    def then_gone(folder: Path) -> list[str]:
        found = listdir(folder)
        folder.rename(trainer / "away")
        return found

    try:
        monkeypatch.setattr(os, "listdir", then_gone)
        times = itertools.count(time.monotonic() + 10, 10)

        def is_told() -> bool:
            door.refresh(next(times))
            return bool(lines)

        wait_until(is_told, 30 * SECOND)
        assert door.callback("*", own_keys(worker, WORKER)[0]), lines
    finally:
        door.close()


@pytest.mark.parametrize(
    ("name", "mode", "is_refused"),
    [
        ("trainer.key_secret", 0o644, True),
        ("trainer.key_secret", 0o622, True),
        ("trainer.key_secret", 0o440, False),
        (".", 0o777, True),
        ("admitted", 0o777, True),
        ("admitted", 0o755, False),
        ("admitted/worker.key", 0o666, True),
    ],
)
def test_keys_are_not_for_every_user_of_the_host(
    name: str, mode: int, *, is_refused: bool,
    context: zmq.Context[zmq.Socket[bytes]], keys: tuple[Path, Path],
) -> None:  # fmt: skip
    (keys[0] / name).chmod(mode)
    with pytest.raises(TransportError, match=str(keys[0] / name)) if is_refused else nullcontext():
        own_keys(keys[0], TRAINER)
        KeyAuthenticator(context, keys[0]).close()
