"""The metrics of a real run: read directly, and by the real Prometheus."""

import json
import re
from itertools import count

import pytest

from tests.support.ports import free_port
from tests.support.programs import Programs
from tests.support.scrapes import get
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, TransportError
from videoload.engine.membership import Admission, Refusal
from videoload.tools import top

pytest.importorskip("prometheus_client")
CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random")


def figures(port: int) -> dict[str, float]:
    """The samples of a scrape by name; samples with labels are added up."""
    found: dict[str, float] = {}
    for name, value in re.findall(
        r"^(videoload_\w+)(?:\{.*\})? (\S+)$", get(port, "/metrics")[1], re.M
    ):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def test_a_client_exports_what_its_stream_did_and_top_shows_it(
    videos: Videos, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(workers=1, metrics_port=0) as client:
        port = client.metrics_port
        assert port
        page = f"http://127.0.0.1:{port}/"
        stream = client.stream(videos.catalog, CLIP, 2, shuffle=True)
        read = len(list(stream))
        top.run(page, every_s=1, json=True)
        shown = json.loads(capsys.readouterr().out)
        [line], [worker] = shown["streams"], shown["workers"]
        assert (line["step"], line["batches_per_epoch"]) == (read - 1, read)
        assert (line["slots"] > 2, line["bad"]) == (True, 0)
        assert (worker["name"], worker["last_error"]) == (client.workers[0].name, "")
        assert worker["clips"] >= 2 * read
        assert line["stats"]["slowest_files"][0]["path"] in videos.catalog.paths
        top.run(page.rstrip("/"), every_s=1, json=False)
        assert f"epoch 1, batch {read} of {read}" in capsys.readouterr().out
        told = figures(port)
        assert told["videoload_batches_total"] == read == len(stream)
        assert told["videoload_clips_total"] == 2 * read
        assert told["videoload_decoded_clips_total"] >= 2 * read
        assert told["videoload_workers"] == 1
        assert "videoload_workers_wanted" not in told, "a loop without steps tells nothing of it"
        first_s = told["videoload_time_to_first_batch_seconds"]
        assert 0 < first_s <= told["videoload_iter_blocked_seconds_total"] < 60
        assert get(port, "/healthz") == get(port, "/readyz") == (200, "ok\n")
        del stream
    with pytest.raises(OSError, match="refused"):
        get(port, "/healthz")
    with pytest.raises(TransportError, match=page):
        top.run(page, every_s=1, json=False)


def test_a_worker_that_is_refused_is_healthy_and_not_ready_and_says_so_once(
    videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    refusals = count(1)
    refused = [0]

    def refuse(*_: object) -> Refusal:
        refused[0] = next(refusals)
        return Refusal("it decodes with FFmpeg 9")

    monkeypatch.setattr(Admission, "remote", refuse)
    with Client(workers=0, listen="tcp://127.0.0.1:*", metrics_port=0) as client:
        worker = programs.worker(client.endpoints[0], videos.root, "--metrics-port", str(port))
        wait_until(lambda: refused[0] > 2, 60 * SECOND)
        assert get(port, "/healthz") == (200, "ok\n")
        assert figures(port)["videoload_worker_processes"] == 1
        status, text = get(port, "/readyz")
        assert status == 503
        assert "rejects" in text
        assert worker.err.count("it decodes with FFmpeg 9") == 1
        assert client.metrics_port
        assert get(client.metrics_port, "/readyz")[0] == 503
        assert get(client.metrics_port, "/healthz")[0] == 200
