"""``videoload top`` and a real trainer: it shows what happens and changes nothing."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, TransportError, decode_serially
from videoload.commands import top

pytestmark = pytest.mark.timeout(160 * SECOND)

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)
BATCH = 3


def test_top_shows_what_happens_and_changes_nothing(
    videos: Videos, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prometheus_client", reason="needs videoload[metrics]")
    with Client(workers=1, metrics_port=0) as client:
        client.wait_for_workers(1, 60 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH)
        reader = stream.batches(epochs=2, info=True)
        got = digests(islice(reader, len(stream) + 2))
        page = f"http://127.0.0.1:{client.metrics_port}/"
        top.run(page, every_s=1, json=True)
        told = json.loads(capsys.readouterr().out)
        [line], [worker] = told["streams"], told["workers"]
        assert (line["step"], line["batches_per_epoch"]) == (len(stream) + 1, len(stream))
        assert (line["readers"], line["slots"] > 2, line["bad"]) == (1, True, 0)
        assert (worker["name"], worker["last_error"]) == (client.workers[0].name, "")
        assert worker["clips"] >= len(got) * BATCH
        assert line["stats"]["slowest_files"][0]["path"] in videos.catalog.paths
        top.run(page.rstrip("/"), every_s=1, json=False)
        assert f"epoch 2, batch 2 of {len(stream)}" in capsys.readouterr().out
        got += digests(reader)
    serial = decode_serially(videos.catalog, CLIP, BATCH, epochs=2, info=True)
    assert got == digests(serial)
    with pytest.raises(TransportError, match=page):
        top.run(page, every_s=1, json=False)


def test_what_is_no_live_page_is_told_in_one_line(programs: Programs) -> None:
    program = programs.videoload("top", "tcp://127.0.0.1:5555", "--json")
    assert program.wait(60 * SECOND) == 1
    assert program.err.count("\n") == 1
    assert all(words in program.err for words in ("tcp://127.0.0.1:5555", "http://HOST:PORT"))
