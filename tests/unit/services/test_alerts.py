"""Each alert fires when it should, and is silent in a training that goes well: promtool says so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.waiting import SECOND

SERVICES = Path(__file__).parents[3] / "services"
ALERTS = SERVICES / "monitoring/alerts.yml"
ADAPTER = SERVICES / "kubernetes/autoscale/adapter.yaml"
RULES = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}

# Samples of a training that goes well, one a minute, for 30 minutes.
GOOD = {
    'videoload_workers{host="a"}': "2x30",
    'videoload_batches_total{stream="0"}': "0+600x30",
    'videoload_iter_blocked_seconds_total{stream="0"}': "0+1x30",
    'videoload_wait_ratio{stream="0"}': "0.02x30",
    'videoload_bad_videos{stream="0"}': "1x30",
    'videoload_max_bad_videos{stream="0"}': "10x30",
    "videoload_workers_refused_total": "0x9 1x20",  # a single worker, once
    "videoload_worker_restarts_total": "0x9 1x20",
    "videoload_worker_trainers": "0x5 1x25",
}
# For each alert: what is another then, the minute in which it fires, the last one before it, and
# one in which it is over, if the trouble is.
BAD: dict[str, tuple[dict[str, str], int, int, int | None]] = {
    "VideoloadNoWorker": (
        {'videoload_workers{host="a"}': "2x9 stale", 'videoload_workers{host=""}': "_x9 0x10 2x9"},
        13, 11, 22,
    ),
    "VideoloadNoProgress": (
        {
            'videoload_batches_total{stream="0"}': "0+600x9 5400x14 5400+600x6",
            'videoload_iter_blocked_seconds_total{stream="0"}': "0+1x9 10+60x20",
        },
        22, 15, 27,
    ),
    "VideoloadTrainerWaits": (
        {'videoload_wait_ratio{stream="0"}': "0.02x5 0.4x18 0.02x5"}, 22, 19, 26,
    ),
    "VideoloadBadVideos": ({'videoload_bad_videos{stream="0"}': "1x9 6x14 stale"}, 16, 13, 27),
    "VideoloadWorkersRefused": (
        {"videoload_workers_refused_total": "0x5 1+1x12 13x12"}, 17, 12, 25,
    ),
    "VideoloadWorkersRestart": ({"videoload_worker_restarts_total": "0x5 1+1x20"}, 15, 9, None),
    "VideoloadWorkerWithoutTrainer": (
        {"videoload_worker_trainers": "1x5 0x15 1x10"}, 17, 14, 22,
    ),
}  # fmt: skip


def case(name: str, series: dict[str, str], minute: int, *, fires: bool) -> dict[str, Any]:
    labels = 'job="trainer", instance="t:9464"'
    stream = {"stream": "0"} if "$labels.stream" in RULES[name]["annotations"]["summary"] else {}
    texts = {
        key: text.replace("{{ $labels.instance }}", "t:9464")
        .replace("{{ $labels.stream }}", "0")
        .replace("{{ $value | humanizePercentage }}", "40%")
        .replace("{{ $value }}", "6")
        for key, text in RULES[name]["annotations"].items()
    }
    given = {"job": "trainer", "instance": "t:9464", **stream, **RULES[name]["labels"]}
    fired = {"exp_labels": given, "exp_annotations": texts}
    return {
        "name": f"{name} at minute {minute}",
        "interval": "1m",
        "input_series": [
            {
                "series": of[:-1] + f", {labels}}}" if of.endswith("}") else f"{of}{{{labels}}}",
                "values": values,
            }
            for of, values in series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [fired] if fires else []}
        ],
    }


def test_every_alert_is_tried() -> None:
    assert BAD.keys() == RULES.keys()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    cases = [case(name, GOOD, 29, fires=False) for name in RULES]
    for name, (series, at, before, over) in BAD.items():
        cases += [
            case(name, GOOD | series, at, fires=True),
            case(name, GOOD | series, before, fires=False),
        ]
        if over is not None:
            cases.append(case(name, GOOD | series, over, fires=False))
    (rule,) = yaml.safe_load(ADAPTER.read_text())["rules"]["external"]
    wanted = rule["metricsQuery"].replace("<<.Series>>", "videoload_workers_wanted")
    wanted = wanted.replace("<<.LabelMatchers>>", 'namespace="videoload"')
    cases.append({
        "name": "the trainer's pod goes after minute 10",
        "interval": "1m",
        "input_series": [
            {"series": f'videoload_workers_wanted{{namespace="videoload",pod="{pod}"}}',
             "values": "20x10 stale _x20"}
            for pod in ("trainer-0", "trainer-1")
        ],
        "promql_expr_test": [
            {"expr": wanted, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
            for at, value in (("10m", 40), ("12m", 0), ("20m", 0))
        ],
    })  # fmt: skip
    file = tmp_path / "alerts_test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": cases}))
    done = subprocess.run(
        ["promtool", "test", "rules", file],
        capture_output=True, text=True, check=False, timeout=60 * SECOND,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
