"""Makes docs/report-1280-*.webp and live-1280-*.webp: the page of a scan and the live page, of
videos drawn here.

python -m scripts.pages
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import videoload as vl
from scripts.film import DOCS, film

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FILES = {"bounce": 14, "roll": 9, "spin": 12, "swing": 4}  # of each class
_LOOKS = {"light": [], "dark": ["--force-dark-mode"]}
_WIDTH, _HEIGHT = 1280, 1500
_STEP_S, _STEPS = 0.04, 300  # of the training that the live page shows
_SHOWN_MS = 20_000


def _make_set(root: Path) -> None:
    """Videos of other lengths, one that is damaged, one that is none, and a copy."""
    rng = np.random.default_rng(0)
    for name, files in _FILES.items():
        for number in range(files):
            path = root / name / f"{name}_{number:02d}.avi"
            film(path, frames=int(rng.integers(40, 210)), rate=30 if number % 5 == 4 else 25)
    damaged = root / "spin/spin_02.avi"
    data = bytearray(damaged.read_bytes())
    at = len(data) // 2
    data[at : at + 40] = bytes(40)
    damaged.write_bytes(data)
    (root / "swing/swing_notes.avi").write_text("not a video")
    shutil.copy(root / "bounce/bounce_03.avi", root / "roll/roll_09.avi")


def _draw(name: str, address: str, shown_ms: int) -> None:
    """Write pictures of a page as a browser shows it after so much of its own time."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)))
    for look, flags in _LOOKS.items():
        with TemporaryDirectory() as folder:
            shot = Path(folder, "shot.png")
            command = [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *flags,
                f"--user-data-dir={folder}/profile", f"--screenshot={shot}",
                f"--window-size={_WIDTH},{_HEIGHT}", f"--virtual-time-budget={shown_ms}", address,
            ]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
            with Image.open(shot) as image:
                small = image.convert("RGB").crop((0, 0, _WIDTH, _HEIGHT))
                small.save(DOCS / f"{name}-{_WIDTH}-{look}.webp", quality=70, method=6)


def main() -> None:
    """Draw the pages, in both looks."""
    with TemporaryDirectory() as folder:
        root, report = Path(folder, "toys"), Path(folder, "report.html")
        _make_set(root)
        command = [sys.executable, "-m", "videoload", "scan", str(root), "--html", str(report)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        report.write_text(report.read_text().replace(str(root), "/data/toys"))
        _draw("report", report.as_uri(), 1000)
        clip = vl.ClipSpec(frames=16, stride=2, resize=240, size=224, sampling="random")
        with vl.Client(workers=2, metrics_port=0) as client:
            stream = client.stream(
                vl.Catalog.from_folder(root), clip, 8, shuffle=True, seed=0, max_bad=0.1
            )
            over, under_way = threading.Event(), threading.Event()
            training = threading.Thread(target=_train, args=(stream, under_way, over))
            training.start()
            under_way.wait()
            try:
                _draw("live", f"http://127.0.0.1:{client.metrics_port}/", _SHOWN_MS)
            finally:
                over.set()
                training.join()


def _train(stream: Any, under_way: threading.Event, over: threading.Event) -> None:
    """Train, as far as the page shows."""
    for step, _ in enumerate(stream.batches(epochs=1 << 20)):
        if step == _STEPS:
            under_way.set()
        if over.is_set():
            return
        time.sleep(_STEP_S)


if __name__ == "__main__":
    main()
