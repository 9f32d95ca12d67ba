"""Steps of a robot's data set, beside LeRobot's loader and PyAV: `python -m benchmarks.robots`.

LeRobot pins an older PyAV than videoload takes, so it has an environment of its own:

    python3 -m venv lerobot && lerobot/bin/pip install 'lerobot==0.4.4'
    python -m benchmarks.robots --lerobot lerobot/bin/python

LeRobot's writer makes 10 episodes of 300 steps (AV1 as it writes by default, cameras of 320x240). A
sample is some frames of each camera, up to its step, and a chunk of 50 actions; shuffled, two
worker processes; what comes out is float32 of 0 to 1, [B, T, C, H, W], on the CPU. LeRobot reads by
torchcodec, and keeps files open. `pyav` is a plain Dataset, which keeps files open, too. In turn,
each in a process of its own; the clock begins after three batches. CPU and bytes read are those of
all processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks import measure
from benchmarks.figures import table

_EPISODES, _STEPS, _FPS, _WARM = 10, 300, 30, 3
_CHUNK = [n / _FPS for n in range(50)]
_LOADERS = "videoload", "lerobot", "pyav"
COLUMNS = {
    "frames x cameras, batch": "{case}", "videoload": "{videoload}",
    "LeRobot, torchcodec": "{lerobot}", "a plain PyAV Dataset": "{pyav}",
}  # fmt: skip
_NEEDS = {"videoload": "torch, pyarrow", "lerobot": "lerobot", "pyav": "torch, pyarrow, av"}


class Case(NamedTuple):
    """Frames of each camera, cameras, and samples of a batch."""

    frames: int
    cameras: int
    batch: int

    @property
    def names(self) -> list[str]:
        return [f"observation.images.{number}" for number in range(self.cameras)]

    @property
    def window(self) -> range:
        return range(1 - self.frames, 1)


CASES = [Case(1, 2, 8), Case(1, 4, 64), Case(8, 2, 8), Case(8, 4, 64)]


def make(root: Path, case: Case) -> None:
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    camera = {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]}
    action = {"dtype": "float32", "shape": (14,), "names": [f"motor_{i}" for i in range(14)]}
    features = {**dict.fromkeys(case.names, camera), "action": action}
    made = LeRobotDataset.create("videoload/robots", _FPS, features, root=root)
    rng = np.random.default_rng(0)
    waves = np.add.outer(np.arange(480), np.arange(640))
    scene = np.stack([waves // n % 256 for n in (1, 2, 3)], axis=-1).astype(np.int16)
    for _ in range(_EPISODES):
        y, x = rng.integers(0, 160, 2)
        for step in range(_STEPS):
            top = scene[(y + step) % 240 :, (x + 2 * step) % 320 :][:240, :320]
            seen = (top + rng.integers(-4, 5, top.shape)).clip(0, 255).astype(np.uint8)
            pictures = {name: np.roll(seen, 9 * at, 1) for at, name in enumerate(case.names)}
            values = rng.random(14, dtype=np.float32)
            made.add_frame({**pictures, "action": values, "task": "move"})
        made.save_episode(parallel_encoding=False)
    made.finalize()


def lerobot(root: Path, case: Case) -> Any:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import DataLoader

    deltas = {**{name: [n / _FPS for n in case.window] for name in case.names}, "action": _CHUNK}
    dataset = LeRobotDataset("videoload/robots", root=root, delta_timestamps=deltas)
    return DataLoader(dataset, case.batch, shuffle=True, num_workers=2)


def pyav(root: Path, case: Case) -> Any:
    import av
    import numpy as np
    import pyarrow.dataset
    import torch
    from torch.utils.data import DataLoader

    episodes = pyarrow.dataset.dataset(root / "meta/episodes").to_table().to_pylist()
    table = pyarrow.dataset.dataset(root / "data").to_table(["action"])
    actions = np.array(table["action"].to_pylist(), np.float32).reshape(-1, _STEPS, 14)
    opened: dict[Path, Any] = {}

    def clip(name: str, episode: Any, steps: Any) -> Any:
        chunk, file = (episode[f"videos/{name}/{of}_index"] for of in ("chunk", "file"))
        path = root / f"videos/{name}/chunk-{chunk:03}/file-{file:03}.mp4"
        if path not in opened:
            opened[path] = av.open(str(path))
            opened[path].streams.video[0].codec_context.thread_count = 1
        stream = opened[path].streams.video[0]
        wanted = (episode[f"videos/{name}/from_timestamp"] * _FPS + steps).round().tolist()
        opened[path].seek(int((wanted[0] + 0.5) / _FPS / stream.time_base), stream=stream)
        frames = {}
        for frame in opened[path].decode(stream):
            if (at := round(frame.time * _FPS)) in wanted:
                frames[at] = torch.from_numpy(frame.to_ndarray(format="rgb24"))
            if at >= wanted[-1]:
                break
        return torch.stack([frames[at] for at in wanted]).permute(0, 3, 1, 2) / 255

    class Steps:
        def __len__(self) -> int:
            return len(episodes) * _STEPS

        def __getitem__(self, index: int) -> Any:
            number, step = divmod(index, _STEPS)
            steps = np.clip(step + np.array(case.window), 0, None)
            clips = {name: clip(name, episodes[number], steps) for name in case.names}
            chunk = np.clip(step + np.arange(len(_CHUNK)), None, _STEPS - 1)
            return {**clips, "action": torch.from_numpy(actions[number, chunk])}

    return DataLoader(Steps(), case.batch, shuffle=True, num_workers=2)


def videoload(root: Path, case: Case) -> Any:
    import videoload as vl

    catalog = vl.Catalog.from_lerobot(root, {"action": _CHUNK})
    window = vl.ClipSpec(
        offsets=tuple(case.window), sampling="dense", hop=1, edges="hold", size=(240, 320),
        crop="stretch",
    )  # fmt: skip
    with vl.Client(workers=2) as client:
        spec = dict.fromkeys(case.names, window)
        stream = client.stream(catalog, spec, case.batch, shuffle=True, seed=0)
        yield from vl.torch.batches(stream, "cpu", layout="BTCHW")


def _measured(batches: Iterable[Any], batch: int, seconds: float) -> dict[str, float]:
    for number, _ in enumerate(batches, 1):
        now = time.perf_counter(), measure.cpu_s(), measure.bytes_read()
        if number == _WARM:
            begun = now
        elif number > _WARM and now[0] > begun[0] + seconds:
            break
    steps = (number - _WARM) * batch
    wall_s, cpu_s, read = (after - before for before, after in zip(begun, now, strict=True))
    return {"steps/s": steps / wall_s, "CPU ms": cpu_s / steps * 1e3, "kB": read / steps / 1e3}


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lerobot", default=sys.executable, help="a Python that has LeRobot")
    parser.add_argument("--root", type=Path, help="where the sets are, or are made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--case", type=int, nargs=3, action="append", metavar="N")
    parser.add_argument("--only", help="(used inside)")
    args = parser.parse_args()
    cases = [Case(*case) for case in args.case or CASES]
    if args.only == "make":
        make(args.root, *cases)
    elif args.only:
        batches = {"lerobot": lerobot, "pyav": pyav, "videoload": videoload}[args.only]
        found = _measured(batches(args.root, *cases), cases[0].batch, args.seconds)
        print(json.dumps(found), flush=True)
    else:
        pythons = {name: args.lerobot if name == "lerobot" else sys.executable for name in _LOADERS}
        loaders = [name for name, python in pythons.items() if _is_there(name, python)]
        with TemporaryDirectory() as folder:
            root = args.root or Path(folder)
            if "lerobot" not in loaders:  # it makes the sets
                cases = [case for case in cases if _set(root, case).exists()]
            print(table((_compare(args, root, case, loaders) for case in cases), COLUMNS))


def _is_there(name: str, python: str) -> bool:
    command = [python, "-c", f"import {_NEEDS[name]}"]
    found = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        print(f"{name}: not run: {found.stderr.splitlines()[-1]}", file=sys.stderr)
    return not found.returncode


def _set(root: Path, case: Case) -> Path:
    return root / f"robots-{case.cameras}"


def _compare(args: Any, root: Path, case: Case, loaders: Sequence[str]) -> dict[str, str]:
    """A row of the table. The set is made if it is missing."""
    folder = _set(root, case)

    def run(name: str) -> dict[str, float]:
        python = args.lerobot if name in ("lerobot", "make") else sys.executable
        what = ["--root", str(folder), "--seconds", str(args.seconds), "--only", name, "--case"]
        out = subprocess.run(
            [python, "-m", "benchmarks.robots", *what, *map(str, case)],
            env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=True, stdout=subprocess.PIPE,
        ).stdout  # fmt: skip
        return json.loads(out.splitlines()[-1]) if name != "make" else {}

    if not folder.exists():
        run("make")
    rounds = [{name: run(name) for name in loaders} for _ in range(args.rounds)]
    row = {"case": f"{case.frames} x {case.cameras}, {case.batch}"} | dict.fromkeys(_LOADERS, "")
    for name in loaders:
        found = {key: median(each[name][key] for each in rounds) for key in rounds[0][name]}
        row[name] = "{steps/s:.0f}, {CPU ms:.2g} ms, {kB:.0f} kB".format(**found)
    return row


if __name__ == "__main__":
    main()
