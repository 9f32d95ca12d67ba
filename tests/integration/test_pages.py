"""The report of a scan and the live page of a client, in a real browser."""

import html
import logging
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.programs import Programs
from tests.support.scrapes import get
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec
from videoload.client import last_batch
from videoload.client.page import as_json, page
from videoload.engine.snapshots import shortened
from videoload.engine.stats import ClientRecord, StreamRecord, StreamStats, Totals, WorkerStats
from videoload.errors import BadVideo
from videoload.wire.metrics_port import Answer, MetricsPort

pytest.importorskip("prometheus_client")

_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Shown(NamedTuple):
    """The document after its scripts have run, and what its console says."""

    document: str
    console: list[str]

    @property
    def text(self) -> str:
        """Without scripts and marks."""
        bare = re.sub(r"<(script|style)\b.*?</\1>", "", self.document, flags=re.S)
        return html.unescape(re.sub(r"<[^>]*>", "\n", bare))


def show(address: str, profile: Path, *, run_ms: int = 3000) -> Shown:
    """Show a page for ``run_ms`` of its own time. Skips the test where there is no Chromium."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine")
    arguments = [
        program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
        f"--virtual-time-budget={run_ms}", "--enable-logging=stderr", "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=60 * SECOND, check=True
    )
    return Shown(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


pytestmark = pytest.mark.slow

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random")
MEAN = "<img src=x onerror=document.title='broken'>"


def test_the_report_shows_the_set_and_runs_nothing_of_its_names(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    folder = tmp_path / "videos"
    shutil.copytree(videos.root, folder)
    (folder / "jump" / f"{MEAN.replace('/', '')}.avi").write_text("no pictures")
    out = tmp_path / "report.html"
    program = programs.videoload("scan", str(folder), "--html", str(out))
    assert program.wait(60 * SECOND) == 0, program.err
    shown = show(out.as_uri(), tmp_path / "profile")
    assert shown.console == []
    assert "<title>/" in shown.document
    assert MEAN.replace("/", "") in shown.text
    for word in (
        "What is wrong",
        "Classes",
        "jump",
        "frames per second",
        f"{len(videos.frames)} of",
    ):
        assert word in shown.text, word
    assert shown.document.count("data:image/jpeg") >= 4


def test_the_live_page_shows_a_training_with_its_pictures(videos: Videos, tmp_path: Path) -> None:
    with Client(workers=1, metrics_port=0) as client:
        port = client.metrics_port
        assert port
        stream = client.stream(videos.catalog, CLIP, 2, shuffle=True)
        batches = iter(stream.batches(epochs=2))
        next(batches)
        get(port, "/batch")  # somebody looks, so the next batch is copied
        next(batches)
        shown = show(f"http://127.0.0.1:{port}/", tmp_path / "profile")
        assert shown.console == []
        assert "batch 2 of" in shown.text
        assert "clips/s" in shown.text
        assert stream.stats().workers[0].name in shown.text
        assert shown.document.count("data:image/jpeg") == 2
        assert "step 1, clip 0" in shown.text
        assert f":{port}/" in repr(client)


def test_a_picture_that_cannot_be_drawn_ends_no_training(
    videos: Videos, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(last_batch, "rows_of", broken)
    caplog.set_level(logging.CRITICAL, "videoload")  # a traceback keeps a batch
    with Client(workers=1, metrics_port=0) as client:
        assert client.metrics_port
        batches = client.stream(videos.catalog, CLIP, 2).batches()
        next(batches)
        get(client.metrics_port, "/batch")  # the next batch is drawn
        next(batches)


def test_many_workers_and_mean_names_are_shown_as_they_are(tmp_path: Path) -> None:
    workers = (WorkerStats(f"h{at}:1", f"h{at}", 1, at, 9.5, file=MEAN) for at in range(2000))
    stats = StreamStats(9, 72, 9.5, 0.25, 0, (), (BadVideo(MEAN, MEAN),), f"Slow. {MEAN}")
    stream = StreamRecord(0, MEAN, 5, 10, 1, 2, 4, 1, stats, Totals(9, 72, 1.0, 0.1), 1, (MEAN,))
    record = shortened(ClientRecord(MEAN, (*workers,), (stream,), refused=(f"worker: {MEAN}",)))
    shows = {
        "/": lambda _: Answer(page("live"), "text/html"),
        "/snapshot": lambda _: Answer(as_json(record), "application/json"),
        "/batch": lambda _: Answer(as_json([{"clips": [], "why_not": MEAN}]), "application/json"),
    }
    port = MetricsPort(0, list, healthz=str, readyz=str, shows=shows)
    try:
        shown = show(f"http://127.0.0.1:{port.port}/", tmp_path / "profile")
    finally:
        port.close()
    assert shown.console == []
    assert "<title>25 % waits: videoload</title>" in shown.document
    assert "and 1744 more" in shown.text
    assert shown.text.count(MEAN) > 256
    assert "h255:1" in shown.text
