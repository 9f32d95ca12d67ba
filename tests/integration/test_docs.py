"""The code of README and docs/ runs, as a reader would run it. That the pages name what exists is
tested in unit/test_pages.py."""

import ast
import importlib.util
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.docstrings import shown
from tests.support.page_files import make_page_files
from tests.support.pages import PAGES, PROJECT, Step, as_json, blocks, scripts, steps
from tests.support.ports import free_ports
from tests.support.programs import COMMANDS, Program, Programs
from tests.support.waiting import SECOND

pytestmark = pytest.mark.timeout(400 * SECOND)

REFERENCE = [page for page in PAGES if page.startswith("docs/reference/") and shown(PAGES[page])]

# The pages whose code runs in a push. That of the others runs at night, or when its test is named.
QUICK = "docs/index.md"  # the quick tests run this page too
USUAL = [
    QUICK,
    "README.md",
    "docs/start/tutorial.md",
    "docs/rely/promises.md",
    *REFERENCE,
    "docs/data/catalogs.md",
    "docs/data/other-files.md",
    "docs/examples.md",
]

# Pages that find in their second run what they saved in their first.
TWICE = ("docs/train/keras.md", "docs/train/resume.md")

# Commands that are not run: page, beginning of the line, reason.
NOT_RUN = [
    ("README.md", "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tensorflow]'",
     "installs packages; test_demo.py runs the demo"),
    ("README.md", "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tensorflow,dev]'",
     "installs packages, and runs these tests"),
    ("docs/start/tutorial.md", "videoload demo --output",
     "takes a minute; test_demo.py runs it on fewer videos, and such are in shapes/"),
    ("docs/start/install.md", "pip install", "installs packages"),
    ("docs/rely/benchmarks.md", "pip install", "installs packages"),
    ("docs/rely/benchmarks.md", "python -m benchmarks", "minutes; test_benchmarks.py runs it"),
    *(("docs/operate/monitoring.md", words, "needs Docker")
      for words in ("export VIDEOS=", "docker compose")),
    ("docs/scale/hosts.md", "scp", "needs another host"),
    *(("docs/scale/hosts.md", words, "needs Docker; test_services.py runs what the files say")
      for words in ("export VIDEOS=", "docker compose", "export REGISTRY=", "docker buildx")),
    *(("docs/scale/kubernetes.md", f"kubectl {command}",
       "needs a cluster; test_kubernetes.py runs what the files say")
      for command in ("kustomize mine", "apply -k mine", "logs", "create secret", "delete job")),
    ("docs/data/bucket.md", "videoload index",
     "needs a bucket; integration/test_remote.py starts one"),
    *(("docs/scale/slurm.md", words, "needs Slurm; test_slurm.py runs it")
      for words in ("export VIDEOLOAD_VIDEOS=", "train", "sbatch")),
    ("docs/operate/monitoring.md", "videoload top", "needs a trainer; test_metrics.py runs it"),
]  # fmt: skip

# Words of a page, and what replaces them on this host.
HERE = {
    "tcp://TRAINER:": "tcp://127.0.0.1:",
    "--root /data/ucf101": "--root ucf101",
    "--keys worker-keys": "--keys keys/worker",
    '"cuda")': '"cpu")',
}

# What a script needs and does not import itself: a pattern of its code, and a package.
NEEDS = {r"\.dataset\(|video_dataset": "tensorflow", "metrics_port=": "prometheus_client"}
SLOW_TO_IMPORT = ("tensorflow", "torch")

# Scripts that run once for each rank, by their code, and how a rank learns which one it is.
RANKS = {"MultiWorkerMirroredStrategy()": "TF_CONFIG", "from ranks import": "torchrun"}

# Runs before a script. A host without GPUs has one device; with two, something is mirrored.
BEFORE = {
    "tf.distribute.MirroredStrategy()": """
import functools
import tensorflow as tf
one = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(one, [tf.config.LogicalDeviceConfiguration()] * 2)
both = ["CPU:0", "CPU:1"]
tf.distribute.MirroredStrategy = functools.partial(tf.distribute.MirroredStrategy, both)
""",
}

# Runs the examples of the docstrings that a page shows. They may use these names.
EXAMPLES = """
import dataclasses
import keras
import numpy as np
import torch
import videoload as vl
from tests.support.docstrings import run_examples

catalog = vl.Catalog.from_folder("ucf101")
train, test = catalog.split(0.8)
clip = vl.ClipSpec(frames=16, resize=128, size=112)
client = vl.Client(workers=1)
stream = client.stream(catalog, clip, batch_size=4, drop_remainder=True)

def build_model():
    pool, dense = keras.layers.GlobalAveragePooling3D(), keras.layers.Dense(3, "softmax")
    model = keras.Sequential([pool, dense])
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return model

model = build_model()
net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten(), torch.nn.Linear(3, 3))
assert run_examples(page, globals())
"""


# The scripts of a page


def scripts_of(page: str) -> list[list[Step]]:
    """The scripts of a page, on this host."""

    def is_left_out(line: str) -> bool:
        return any(where == page and line.startswith(text) for where, text, _ in NOT_RUN)

    text = PAGES[page]
    for words, here in HERE.items():
        text = text.replace(words, here)
    found = steps(text, is_left_out)
    if page in REFERENCE:
        found.append(Step("python", 1, f"page = {text!r}\n{EXAMPLES}"))
    return scripts(found)


def code_of(script: list[Step]) -> str:
    return "\n".join(step.code for step in script if step.kind == "python")


def packages_of(script: list[Step]) -> list[str]:
    """The packages that a script imports, without the files that it writes."""
    code, found = code_of(script), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    found |= {package for pattern, package in NEEDS.items() if re.search(pattern, code)}
    own = {Path(block.title).stem for text in PAGES.values() for block in blocks(text)}
    return sorted(found - own)


def lacking(script: list[Step]) -> list[str]:
    """The packages of a script that are not installed."""
    return [name for name in packages_of(script) if importlib.util.find_spec(name) is None]


# Running one


def launched(launcher: str | None, rank: int, ranks: int, ports: list[int]) -> dict[str, str]:
    """The environment of a rank."""
    found = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    if launcher == "TF_CONFIG":
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports[:ranks]]}
        task = {"type": "worker", "index": rank}
        found["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    if launcher == "torchrun":
        found |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        found |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[-1])}
    return found


def folder_of_rank(folder: Path, rank: int) -> Path:
    """A folder of its own, in which links lead to all that there was."""
    here = folder / f"rank{rank}"
    if not here.exists():
        here.mkdir()
        for name in os.listdir(folder):
            if not name.startswith("rank"):
                (here / name).symlink_to(folder / name)
    return here


def run_script(programs: Programs, page: str, script: list[Step], folder: Path) -> None:
    """Carry out a script in one process for each rank. Fails if one does not end well."""
    code = code_of(script)
    launcher = next((how for words, how in RANKS.items() if words in code), None)
    ranks = 2 if launcher else 1
    before = [Step("python", 1, more) for words, more in BEFORE.items() if words in code]
    imported = next((name for name in SLOW_TO_IMPORT if name in packages_of(script)), COMMANDS)
    ports = free_ports(3)
    todo = as_json(before + script)
    todo = re.sub(r":555([56])\b", lambda port: f":{ports[int(port[1]) - 5]}", todo)
    (folder / "shared").mkdir(exist_ok=True)
    started: list[Program] = []
    for rank in range(ranks):
        words = ("-m", "tests.support.pages", str(PROJECT / page), todo)
        environment = launched(launcher, rank, ranks, ports)
        here = folder_of_rank(folder, rank)
        started.append(programs.python(*words, imported=imported, cwd=here, env=environment))
    for program in started:
        assert program.wait(150 * SECOND) == 0, f"{program.out}\n{program.err}"
        assert "Traceback" not in program.err, program.err


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page_files")
    make_page_files(folder)
    return folder


def pages_to_run() -> list[Any]:
    """All pages with code. A page that is not quick is slow."""
    found = []
    for page in PAGES:
        if any(scripts_of(page)):
            marks = [] if page in USUAL else [pytest.mark.nightly]
            marks += [] if page == QUICK else [pytest.mark.slow]
            found.append(pytest.param(page, marks=marks))
    return found


@pytest.mark.parametrize("page", pages_to_run())
def test_the_code_of_a_page_runs(
    page: str, programs: Programs, page_files: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(page_files, tmp_path / "page"))
    todo = scripts_of(page)
    runnable = [script for script in todo if not lacking(script)]
    for script in runnable * (2 if page in TWICE else 1):
        run_script(programs, page, script, folder)
    if not runnable:
        missing = {name for script in todo for name in lacking(script)}
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")
