"""WebDataset's shards, beside WebDataset itself: `python -m benchmarks.shards`.

    pip install webdataset torch

Four tars of 128 samples: the files of the work `ucf` under many names, and a number. WebDataset
shuffles shards and a buffer of 1 000 samples, by fixed seeds, with as many DataLoader workers; it
decodes in the limit's own loop (PyAV), from the bytes of a sample. Both give batches of 8.

Clips a second begin after the tenth batch of the first epoch; CPU is that of all processes, for
each clip. The order is compared between 1, 2 and 8 workers. Half an epoch is trained on with two
workers and then killed; the run that resumes skips as many batches, with two and three workers.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.figures import table
from benchmarks.works import FOLDER, load

_SHARDS, _SAMPLES, _BATCH, _WARM, _EPOCHS = 4, 128, 8, 10, 3
_LOADERS = "videoload", "webdataset"
COLUMNS = {"": "{what}", "videoload": "{videoload}", "WebDataset": "{webdataset}"}


def make(folder: Path, work: Any) -> Path:
    """The shards, in a folder of their own."""
    place = folder / "shards"
    place.mkdir(exist_ok=True)
    for shard in range(_SHARDS):
        with tarfile.open(place / f"{shard:06}.tar", "w") as tar:
            for number in range(shard * _SAMPLES, (shard + 1) * _SAMPLES):
                video = Path(work.path(work.files[number % len(work.files)])).read_bytes()
                for kind, data in (("avi", video), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{number:06}.{kind}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return place


def webdataset(place: Path, work: Any, workers: int, step: int, epochs: int) -> Iterator[list[int]]:
    """The numbers of each batch. It has no position to begin at: earlier batches are skipped."""
    import av
    import webdataset as wds

    from benchmarks.loaders.bare import Plain

    file, plain = work.files[0], Plain(work, tables=False)
    start = (file.frames - work.clip.span) // 2

    def clip(sample: dict[str, bytes]) -> tuple[Any, int]:
        out = np.empty(work.clip.shape, np.uint8)
        with av.open(io.BytesIO(sample["avi"]), "r") as container:
            container.streams.video[0].codec_context.thread_count = 1
            plain.read_open(container, file, start, out)
        return out, int(sample["cls"])

    shards = sorted(str(path) for path in place.glob("*.tar"))
    data = wds.WebDataset(shards, shardshuffle=100, detshuffle=True, seed=0, empty_check=False)
    data = data.shuffle(1000, seed=0).map(clip).batched(_BATCH)
    loader = wds.WebLoader(data, batch_size=None, num_workers=workers, persistent_workers=True)
    batches = chain.from_iterable(loader for _ in range(epochs))
    for _, numbers in islice(batches, step, None):
        yield [int(number) for number in numbers]


def videoload(place: Path, work: Any, workers: int, step: int, epochs: int) -> Iterator[list[int]]:
    """The same, from a batch on."""
    import videoload as vl

    catalog = vl.Catalog.from_shards("*.tar", place, targets="cls")
    clip = vl.ClipSpec(
        frames=work.clip.frames, stride=work.clip.stride, resize=work.clip.resize,
        size=work.clip.crop,
    )  # fmt: skip
    with vl.Client(workers=workers) as client:
        stream = client.stream(catalog, clip, _BATCH, shuffle=True, seed=0, drop_remainder=False)
        for _, numbers in stream.batches(start_step=step, epochs=epochs):
            yield [int(number) for number in numbers.ravel()]


def _rate(batches: Iterator[list[int]]) -> dict[str, float]:
    clips = 0
    for number, numbers in enumerate(batches, 1):
        clips += len(numbers)
        if number == _WARM:
            warm, before = time.perf_counter(), clips
    seconds = time.perf_counter() - warm
    del batches  # ends its processes
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    return {"rate": (clips - before) / seconds, "cpu_ms": 1000 * cpu / clips}


def _epoch(batches: Iterator[list[int]], kill_at: int = -1) -> dict[str, Any]:
    """The numbers of an epoch; one of the worker processes may be killed."""
    found: list[int] = []
    with suppress(RuntimeError, OSError):  # DataLoader's, of a worker that was killed
        for step, numbers in enumerate(batches):
            found += numbers
            if step == kill_at:
                os.kill(_worker(), signal.SIGKILL)
    return {"numbers": found}


def _worker() -> int:
    """The child that has used a core most, whichever thread started it."""
    tasks = Path("/proc/self/task").iterdir()
    children = chain.from_iterable((task / "children").read_text().split() for task in tasks)
    return max(map(int, children), key=lambda pid: int(_stat(pid)[13]))


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().split()


def _run(args: Any) -> dict[str, Any]:
    work = load(args.work, args.folder)
    place, source = args.folder / "shards", {"webdataset": webdataset, "videoload": videoload}
    epochs = _EPOCHS if args.only == "rate" else 1
    batches = source[args.loader](place, work, args.workers, args.skip, epochs)
    if args.only == "rate":
        return _rate(batches)
    return _epoch(batches, kill_at=5 if args.only == "killed" else -1)


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--work", choices=("ucf", "tiny"), default="ucf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="(used inside)")
    parser.add_argument("--loader", choices=_LOADERS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--skip", type=int, default=0)
    args = parser.parse_args()
    if args.only == "make":
        args.folder.mkdir(parents=True, exist_ok=True)
        make(args.folder, load(args.work, args.folder, print))
    elif args.only:
        print(json.dumps(_run(args)))
    else:
        _compare(args)


def _compare(args: Any) -> None:
    def run(only: str, loader: str, **flags: int) -> Any:
        more = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "benchmarks.shards", "--folder", str(args.folder)]
        command += ["--work", args.work]
        command += ["--only", only, "--loader", loader, *more]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout
        return json.loads(out.splitlines()[-1]) if only != "make" else None

    run("make", "videoload")
    loaders = list(_LOADERS)
    if absent := [name for name in ("webdataset", "torch") if not find_spec(name)]:
        print(f"webdataset: not run: {absent[0]} is not installed", file=sys.stderr)
        loaders.remove("webdataset")
    rates: dict[str, list[dict[str, float]]] = {loader: [] for loader in loaders}
    for number in range(args.rounds):
        for loader in loaders[:: -1 if number % 2 else 1]:
            rates[loader].append(run("rate", loader))
    rows: dict[str, dict[str, str]] = {}
    for loader in loaders:
        rate, cpu_ms = (median(r[key] for r in rates[loader]) for key in ("rate", "cpu_ms"))
        first, *others = (run("epoch", loader, workers=n)["numbers"] for n in (2, 1, 8))
        killed = run("killed", loader)["numbers"]
        half = len(first) // _BATCH // 2
        rest = run("epoch", loader, workers=3, skip=half)["numbers"]
        count = Counter(first[: half * _BATCH] + rest)
        lost, doubled = _SHARDS * _SAMPLES - len(count), count.total() - len(count)
        for what, told in {
            "clips/s; CPU of a clip": f"{rate:.0f}; {cpu_ms:.1f} ms",
            "the same order with 1, 2 and 8 workers": _yes(all(each == first for each in others)),
            "clips of an epoch after a worker is killed": str(len(set(killed))),
            "the same order then": _yes(killed == first),
            "resumed in mid-epoch with 3 workers: lost, duplicated": f"{lost}, {doubled}",
        }.items():
            rows.setdefault(what, dict.fromkeys(_LOADERS, "") | {"what": what})[loader] = told
    print(table(rows.values(), COLUMNS))


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


if __name__ == "__main__":
    main()
