"""Steps of a robot's data set, beside LeRobot's own DataLoader: `python -m benchmarks.robots`.

LeRobot pins an older PyAV than videoload takes, so it has an environment of its own:

    python3 -m venv lerobot && lerobot/bin/pip install 'lerobot==0.4.4'
    python -m benchmarks.robots --lerobot lerobot/bin/python

LeRobot's writer makes 20 episodes of 300 steps (AV1 as it writes by default, two cameras of
320x240). A sample is three frames of each camera and a chunk of 50 actions; batches of 8, shuffled,
two worker processes; what comes out is float32 of 0 to 1, [B, T, C, H, W], on the CPU. In turn,
each in a process of its own. Steps a second begin after the tenth batch; CPU is that of all
processes, from the start to the end.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

_CAMERAS = ("observation.images.top", "observation.images.wrist")
_EPISODES, _STEPS, _FPS, _WARM = 20, 300, 30, 10
_WINDOW = (-6, -3, 0)
_CHUNK = [n / _FPS for n in range(50)]


def make(root: Path) -> None:
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    camera = {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]}
    action = {"dtype": "float32", "shape": (14,), "names": [f"motor_{i}" for i in range(14)]}
    features = {**dict.fromkeys(_CAMERAS, camera), "action": action}
    made = LeRobotDataset.create("videoload/robots", _FPS, features, root=root)
    rng = np.random.default_rng(0)
    waves = np.add.outer(np.arange(480), np.arange(640))
    scene = np.stack([waves // n % 256 for n in (1, 2, 3)], axis=-1).astype(np.int16)
    for _ in range(_EPISODES):
        y, x = rng.integers(0, 160, 2)
        for step in range(_STEPS):
            top = scene[(y + step) % 240 :, (x + 2 * step) % 320 :][:240, :320]
            seen = (top + rng.integers(-4, 5, top.shape)).clip(0, 255).astype(np.uint8)
            pictures = {_CAMERAS[0]: seen, _CAMERAS[1]: seen[::-1].copy()}
            values = rng.random(14, dtype=np.float32)
            made.add_frame({**pictures, "action": values, "task": "move"})
        made.save_episode(parallel_encoding=False)
    made.finalize()


def lerobot(root: Path) -> Any:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import DataLoader

    deltas = {**{name: [n / _FPS for n in _WINDOW] for name in _CAMERAS}, "action": _CHUNK}
    dataset = LeRobotDataset("videoload/robots", root=root, delta_timestamps=deltas)
    return DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)


def videoload(root: Path) -> Any:
    import videoload as vl

    catalog = vl.Catalog.from_lerobot(root, {"action": _CHUNK})
    window = vl.ClipSpec(
        offsets=_WINDOW, sampling="dense", hop=1, edges="hold", size=(240, 320), crop="stretch"
    )
    with vl.Client(workers=2) as client:
        stream = client.stream(
            catalog, dict.fromkeys(_CAMERAS, window), batch_size=8, shuffle=True, seed=0
        )
        yield from vl.torch.batches(stream, "cpu", layout="BTCHW", mean=[0, 0, 0], std=[1, 1, 1])


def _measured(batches: Iterable[Any], steps: int) -> dict[str, float]:
    begun = time.perf_counter()
    for number, _ in enumerate(batches, 1):
        if number == _WARM:
            warm = time.perf_counter()
        if number * 8 >= steps:
            break
    ended = time.perf_counter()
    del batches
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "steps a second": (number - _WARM) * 8 / (ended - warm),
        "wall": ended - begun,
        "CPU": sum(each.ru_utime + each.ru_stime for each in used),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lerobot", default=sys.executable, help="a Python that has LeRobot")
    parser.add_argument("--root", type=Path, help="where the set is, or is made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", help="(used inside)")
    args = parser.parse_args()
    if args.only == "make":
        make(args.root)
    elif args.only:
        batches = {"lerobot": lerobot, "videoload": videoload}[args.only](args.root)
        print(json.dumps(_measured(batches, args.steps)))
    else:
        with TemporaryDirectory() as folder:
            _compare(args, args.root or Path(folder, "robots"))


def _compare(args: Any, root: Path) -> None:
    def run(name: str, python: str) -> dict[str, float]:
        what = ["--root", str(root), "--steps", str(args.steps), "--only", name]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        out = subprocess.run(
            [python, __file__, *what], env=environment, check=True, stdout=subprocess.PIPE
        ).stdout
        return json.loads(out.splitlines()[-1]) if name != "make" else {}

    if not root.exists():
        run("make", args.lerobot)
    rounds: dict[str, list[dict[str, float]]] = {"lerobot": [], "videoload": []}
    for _ in range(args.rounds):
        for name, python in (("lerobot", args.lerobot), ("videoload", sys.executable)):
            rounds[name].append(run(name, python))
    for name, found in rounds.items():
        print(name, {key: round(median(each[key] for each in found), 1) for key in found[0]})


if __name__ == "__main__":
    main()
