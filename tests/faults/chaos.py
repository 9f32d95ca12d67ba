"""Injects faults of every kind while a client streams; the stream must not change.

    python -m tests.faults.chaos --batches 20000 --faults 400 --seed 1
    python -m tests.faults.chaos --without "endless message"       # leaves out a kind of fault
    python -m tests.faults.chaos --only "lying worker"
    python -m tests.faults.chaos --frame-store-gb 1                # one store for all workers

Two local workers and three that dial in (one directly, one through a proxy, one through a proxy
under CURVE keys) decode shuffled epochs of small videos; some of the videos are bad. The seed alone
decides which fault happens, to whom, and after which batch; a fault whose target is missing waits
for it. Other faults come from outside: workers with a wrong, empty or half-copied root, a lying
worker, strangers with malformed or endless messages, and storage that stands still for everybody.
The batches must equal those of `decode_serially`, byte for byte. At the end no descriptor, thread,
process or memory may be left over.

Exit status 0, or 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.faults.chaos_faults import Chaos
from tests.faults.chaos_fleet import (
    BAD,
    BATCH,
    LOCALS,
    PATIENCE_S,
    Fleet,
    clip_of,
    keys_at,
    make_roots,
    make_videos,
    samples_of,
    start,
)
from tests.faults.chaos_report import Left, Report
from tests.faults.chaos_script import (
    JOIN,
    PROXIED,
    ROLES,
    SEALED,
    STRAIGHT,
    Planned,
    plan_faults,
)
from tests.faults.proxy import Proxy
from tests.support.digests import digests
from tests.support.forked import Forking
from tests.support.ports import free_port
from tests.support.waiting import SECOND, wait_until
from videoload import Client, Stream, VideoloadError, decode_serially
from videoload.transport.keys import make_keys

STALL_S = 1.5 * SECOND


def run(
    folder: Path,
    forking: Forking,
    *,
    batches: int,
    faults: int,
    seed: int,
    epoch_batches: int = 500,
    chosen: Callable[[str], bool] = lambda what: True,
    frame_store_gb: float | None = None,
) -> Report:
    """Stream at least ``batches`` batches under ``faults`` faults of the ``chosen`` kinds.
    ``folder`` holds the videos, the keys and the workers' output. With ``frame_store_gb``, all
    workers share a frame store, also those with a wrong root."""
    catalog = make_videos(folder / "videos")
    clip = clip_of(epoch_batches, len(catalog))
    options: dict[str, Any] = {"shuffle": True, "seed": seed}
    per_epoch = len(catalog) * clip.clips_per_video // BATCH
    epochs = -(-batches // per_epoch)
    report = Report(epochs * per_epoch, epochs, seed)

    began = time.monotonic()
    expected: list[str] = []
    owed: Counter[tuple[int, int, bytes]] = Counter()
    for batch in decode_serially(catalog, clip, BATCH, epochs=epochs, info=True, **options):
        owed.update((len(expected) // per_epoch, *sample) for sample in samples_of(batch))
        expected += digests([batch])
    report.serial_s = time.monotonic() - began

    script: dict[int, list[Planned]] = {}
    for planned in plan_faults(report.batches, faults, seed, chosen):
        script.setdefault(planned.batch, []).append(planned)

    store = None if frame_store_gb is None else folder / "frames"
    shared = ("--frame-store", str(store), "--frame-store-gb", str(frame_store_gb)) if store else ()
    log = folder / "workers.log"
    start(forking, log, "--version").wait(PATIENCE_S)  # from now on there is somebody who forks
    empty = Left.now()
    trainer_keys, worker_keys = make_keys(folder / "keys")
    with ExitStack() as stack:
        sealed_at = f"tcp://127.0.0.1:{free_port()}"
        with keys_at(sealed_at):
            client = stack.enter_context(
                Client(
                    workers=LOCALS,
                    listen=["tcp://127.0.0.1:*", sealed_at],
                    keys=trainer_keys,
                    stall_s=STALL_S,
                    frame_store=store,
                    frame_store_gb=frame_store_gb,
                )
            )
        plain = client.endpoints[0]
        proxies = {
            PROXIED: stack.enter_context(Proxy(plain, seed)),
            SEALED: stack.enter_context(Proxy(sealed_at, seed + 1)),
        }
        fleet = Fleet(client, folder / "videos", log, stack, forking, shared)
        for role, endpoint in ((STRAIGHT, plain), (JOIN, plain), (PROXIED, None)):
            fleet.can(role, "--connect", endpoint or proxies[PROXIED].endpoint)
        for guest, root in make_roots(folder / "videos", folder / "roots").items():
            fleet.can(guest, "--connect", plain, root=root)
        fleet.can(SEALED, "--connect", proxies[SEALED].endpoint, "--keys", str(worker_keys))
        for role in ROLES:
            fleet.start(role)
        wait_until(fleet.complete, PATIENCE_S, "all workers are there")
        stream = client.stream(catalog, clip, BATCH, **options)
        chaos = Chaos(client, fleet, proxies, report, seed)
        got = _read(client, stream, epochs, per_epoch, chaos, script, owed, report)
        _recover(chaos, fleet, proxies, report)
        report.after = _left(report.before)
        report.blamed = [bad.path for bad in stream.quarantine if bad.path not in BAD]
        del stream, chaos
    _judge(report, got, expected, owed, empty)
    return report


def _recover(chaos: Chaos, fleet: Fleet, proxies: dict[str, Proxy], report: Report) -> None:
    """Mend everything that was broken, and wait until all workers are back."""
    chaos.settle()
    for proxy in proxies.values():
        proxy.release()
    report.never = chaos.unfinished()
    fleet.see_off_guests()
    for role in ROLES:
        if fleet.by_role[role].poll() is not None:
            fleet.start(role)
    try:
        wait_until(fleet.complete, PATIENCE_S, "all workers are there again")
    except TimeoutError as error:
        report.wrong.append(str(error))


def _left(before: Left | None) -> Left:
    """What is held once all that came after ``before`` is released, or at the end of patience."""
    held = [Left.now()]

    def released() -> bool:
        held.append(Left.now())
        return before is None or not held[-1].beyond(before)

    with suppress(TimeoutError):  # connections of workers that were killed end a moment later
        wait_until(released, PATIENCE_S)
    return held[-1]


def _read(
    client: Client,
    stream: Stream,
    epochs: int,
    per_epoch: int,
    chaos: Chaos,
    script: dict[int, list[Planned]],
    owed: Counter[tuple[int, int, bytes]],
    report: Report,
) -> list[str]:
    got: list[str] = []
    heard = time.monotonic()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if time.monotonic() - heard > PATIENCE_S:
                report.wrong.append(f"no batch for {PATIENCE_S:g} s after {len(got)}: closed")
                client.close()
                return

    watchdog = threading.Thread(target=watch)
    watchdog.start()
    began = time.monotonic()
    try:
        for batch in stream.batches(epochs=epochs, info=True):
            now = time.monotonic()
            if got:
                report.longest_s = max(report.longest_s, now - heard)
                report.pauses += now - heard > 1
            owed.subtract((len(got) // per_epoch, *sample) for sample in samples_of(batch))
            got += digests([batch])
            del batch
            if len(got) == int(0.02 * report.batches):
                report.before = Left.now()
            chaos.after(len(got), script.get(len(got), []))
            heard = time.monotonic()
    except VideoloadError as error:
        report.wrong.append(f"after {len(got)} batches: {error!r}")
    finally:
        over.set()
        watchdog.join()
    report.seconds = time.monotonic() - began
    return got


def _judge(
    report: Report,
    got: list[str],
    expected: list[str],
    owed: Counter[tuple[int, int, bytes]],
    empty: Left,
) -> None:
    report.differing = [
        at for at in range(len(expected)) if at >= len(got) or got[at] != expected[at]
    ]
    report.digest = hashlib.sha256("".join(got).encode()).hexdigest()
    report.lost = sum(count for count in owed.values() if count > 0)
    report.doubled = -sum(count for count in owed.values() if count < 0)
    if report.differing:
        first = report.differing[0]
        report.wrong.append(f"{len(report.differing)} batches differ, the first is {first}")
    if report.lost or report.doubled:
        report.wrong.append(f"{report.lost} samples lost, {report.doubled} doubled")
    if report.blamed:
        report.wrong.append(f"good videos taken for bad: {', '.join(report.blamed)}")
    assert report.before is not None
    assert report.after is not None
    report.wrong += report.after.beyond(report.before)

    def left() -> list[str]:
        return [what for what in Left.now().beyond(empty) if "res" not in what]

    with suppress(TimeoutError):  # a joined thread stays in the kernel for a moment
        wait_until(lambda: not left(), 2 * SECOND)
    report.wrong += [f"after closing, {what}" for what in left()]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--faults", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frame-store-gb", type=float)
    parser.add_argument("--log", type=Path, help="keep what the workers print here")
    kinds = sorted({planned.what for planned in plan_faults(1000, 1000, 1)})
    for name, what in (("--only", "no other kind of fault"), ("--without", "leave this one out")):
        parser.add_argument(name, action="append", choices=kinds, default=[], help=what)
    asked = parser.parse_args()

    def chosen(what: str) -> bool:
        return what in (asked.only or kinds) and what not in asked.without

    forking = Forking()
    with tempfile.TemporaryDirectory() as folder:
        report = run(
            Path(folder), forking, batches=asked.batches, faults=asked.faults, seed=asked.seed,
            chosen=chosen, frame_store_gb=asked.frame_store_gb,
        )  # fmt: skip
        if asked.log:
            asked.log.write_bytes((Path(folder) / "workers.log").read_bytes())
    forking.end()
    console = Console(width=110, highlight=False)
    for table in report.tables():
        console.print(table)
    console.print(f"SHA-256 {report.digest}")
    for what in report.wrong:
        console.print(f"WRONG: {what}", markup=False)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
