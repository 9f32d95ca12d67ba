"""README and docs/ are true: their code runs, their commands exist, their links lead somewhere."""

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import typer

import videoload
from scripts import command_line
from tests.support.docstrings import shown
from tests.support.layouts import films
from tests.support.needs import needs_tensorflow
from tests.support.pages import Step, as_json, blocks, scripts, steps
from tests.support.ports import free_ports
from tests.support.programs import COMMANDS, Programs
from tests.support.videos import make_avi, make_lengths
from tests.support.waiting import SECOND
from videoload.tools.cli import app
from videoload.tools.demo import make_videos

pytestmark = pytest.mark.timeout(400 * SECOND)

PROJECT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(PROJECT).as_posix(): path.read_text()
    for path in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
}
REFERENCE = [page for page in PAGES if page.startswith("docs/reference/") and shown(PAGES[page])]
SITES = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md"]

# The table of lines that are not run: page, beginning of the line, reason.
NOT_RUN = [
    ("README.md", "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tensorflow]'",
     "installs packages; test_the_demo_runs runs the demo"),
    ("README.md", "python3 -m venv .venv && .venv/bin/pip install -q -e '.[tensorflow,dev]'",
     "installs packages, and runs these tests"),
    ("docs/start/tutorial.md", "videoload demo --output",
     "takes a minute; test_the_demo_runs runs it on fewer videos, and such are in shapes/"),
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

# The pages whose code runs in a push. That of the others runs at night, or when its test is named.
QUICK = "docs/index.md"  # the quick tests run this page too
USUAL = [
    QUICK, "README.md", "docs/start/tutorial.md", "docs/rely/promises.md", *REFERENCE,
    "docs/data/catalogs.md", "docs/data/other-files.md", "docs/examples.md",
]  # fmt: skip

# What a script needs and does not import itself.
NEEDS = {r"\.dataset\(|video_dataset": "tensorflow", "metrics_port=": "prometheus_client"}

# What a script says that runs once for each rank, and how a rank learns which one it is.
RANKS = {"MultiWorkerMirroredStrategy()": "TF_CONFIG", "from ranks import": "torchrun"}

# Pages that find in their second run what they saved in their first.
TWICE = ("docs/train/keras.md", "docs/train/resume.md")

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

SLOW_TO_IMPORT = ("tensorflow", "torch")
OF_KERAS = ("Position",)  # its module imports Keras


def skipped(page: str, line: str) -> bool:
    return any(where == page and line.startswith(text) for where, text, _ in NOT_RUN)


def todo(page: str) -> list[list[Step]]:
    """The scripts of a page, on this host."""
    text = PAGES[page]
    for said, here in HERE.items():
        text = text.replace(said, here)
    found = steps(text, lambda line: skipped(page, line))
    if page in REFERENCE:
        found.append(Step("python", 1, f"page = {text!r}\n{EXAMPLES}"))
    return scripts(found)


def code_of(script: list[Step]) -> str:
    return "\n".join(step.code for step in script if step.kind == "python")


def needed(script: list[Step]) -> list[str]:
    """The packages that a script imports, without the files that it writes."""
    code, found = code_of(script), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    found |= {name for said, name in NEEDS.items() if re.search(said, code)}
    own = {Path(block.title).stem for text in PAGES.values() for block in blocks(text)}
    return sorted(found - own)


def run_script(programs: Programs, page: str, script: list[Step], folder: Path) -> list[str]:
    """Carry out a script in one process for each rank; returns their output. Fails if one does not
    end well."""
    code = code_of(script)
    launcher = next((how for said, how in RANKS.items() if said in code), None)
    before = [Step("python", 1, more) for said, more in BEFORE.items() if said in code]
    imported = next((name for name in SLOW_TO_IMPORT if name in needed(script)), COMMANDS)
    ranks = 2 if launcher else 1
    ports = free_ports(3)
    whole = as_json(before + script)
    said = re.sub(r":555([56])\b", lambda port: f":{ports[int(port[1]) - 5]}", whole)
    (folder / "shared").mkdir(exist_ok=True)
    started = []
    for rank in range(ranks):
        here = folder / f"rank{rank}"
        if not here.exists():
            here.mkdir()
            for name in os.listdir(folder):
                if not name.startswith("rank"):
                    (here / name).symlink_to(folder / name)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports[:ranks]]}
        config = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        if launcher == "TF_CONFIG":
            environment["TF_CONFIG"] = json.dumps(config)
        if launcher == "torchrun":
            environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[2])}
        started.append(
            programs.python(
                "-m", "tests.support.pages", str(PROJECT / page), said,
                imported=imported, cwd=here, env=environment,
            )
        )  # fmt: skip
    for program in started:
        status = program.wait(150 * SECOND)
        assert status == 0, f"{program.out}\n{program.err}"
        assert "Traceback" not in program.err, program.err
    return [program.out for program in started]


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small videos and lists, under the names that the pages use."""
    folder = tmp_path_factory.mktemp("materials")
    names = ("Archery", "Bowling", "Diving")
    listed = []
    for seed, name in enumerate(names):
        for group in range(1, 6):
            path = f"{name}/v_{name}_g{group:02d}_c01.avi"
            make_avi(folder / "ucf101" / path, frames=30, size=(60, 80), seed=seed)
            listed.append(f"{path} {seed + 1}\n")
    (folder / "trainlist01.txt").write_text("".join(listed))
    tested = [line.split()[0] + "\n" for line in listed if "_g05_" in line]
    (folder / "testlist01.txt").write_text("".join(tested))
    (folder / "classInd.txt").write_text("".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    make_videos(folder / "shapes", 2, 1, frames=40)
    make_avi(folder / "ntu/S001.avi", frames=30, size=(60, 80))
    films(folder)
    for name, lengths in (("hello", range(9, 39)), ("thanks", range(20, 80, 2))):
        make_lengths(folder / "signs", lengths, f"{name}/")
    for number in range(3):
        make_avi(folder / f"miniscope/m1/{number}.avi", frames=12, size=(60, 80))
    for at, name in enumerate(("surf", "dance", "snow", "cat", "market", "train")):
        size = ((54, 96), (96, 54), (64, 64))[at % 3]
        make_avi(folder / f"web/{name}.avi", frames=60 + 50 * at, size=size, seed=at)
        said = ["A film.", "Pictures move."][: 1 + at % 2]
        (folder / f"web/{name}.json").write_text(json.dumps({"caption": said}))
    (folder / "ego").mkdir()
    for shard in range(2):
        with tarfile.open(folder / f"ego/{shard:06}.tar", "w") as tar:
            for number, video in enumerate(sorted(folder.glob(f"ucf101/*/*_g0{1 + shard}_*"))):
                (folder / "ego/cls").write_text(str(number))
                tar.add(video, f"{shard}{number}.avi")
                tar.add(folder / "ego/cls", f"{shard}{number}.cls")
    if importlib.util.find_spec("pyarrow") is not None:
        make_cells(folder / "cells/0.parquet", sorted(folder.glob("ucf101/*/*_g01_*.avi")))
    (folder / "train.csv").write_text(
        "path,label,start,end\nS001.avi,sit,0,10\nS001.avi,wave,10,\n"
    )
    return folder


def make_cells(table: Path, videos: list[Path]) -> None:
    """A table whose cells hold videos, as Hugging Face's `datasets` writes them."""
    from pyarrow import parquet
    from pyarrow import table as columns

    table.parent.mkdir()
    cells = [{"bytes": path.read_bytes(), "path": None} for path in videos]
    actions = [path.parent.name for path in videos]
    parquet.write_table(columns({"video": cells, "action": actions}), table, compression="none")


@pytest.fixture
def folder(materials: Path, tmp_path: Path) -> Path:
    """A folder of its own for one page."""
    return Path(shutil.copytree(materials, tmp_path / "page"))


def pages_to_run() -> list[Any]:
    """All pages with code. A page that is not quick is slow."""
    marks = {
        page: [] if page in USUAL else [pytest.mark.nightly] for page in PAGES if any(todo(page))
    }
    return [
        pytest.param(page, marks=[*marks[page], *([] if page == QUICK else [pytest.mark.slow])])
        for page in marks
    ]


@pytest.mark.parametrize("page", pages_to_run())
def test_the_code_of_a_page_runs(page: str, programs: Programs, folder: Path) -> None:
    lacking = set()
    ran = False
    for script in todo(page) * (2 if page in TWICE else 1):
        absent = [name for name in needed(script) if importlib.util.find_spec(name) is None]
        lacking |= {*absent}
        if not absent:
            run_script(programs, page, script, folder)
            ran = True
    if not ran:
        pytest.skip(f"not installed: {', '.join(sorted(lacking))}")


# The tables above are exact


def test_every_page_uses_names_and_arguments_that_exist() -> None:
    """Of the pages that run at night, a push checks this."""
    seen = 0
    for page, text in PAGES.items():
        for block in blocks(text):
            if block.language not in ("python", "diff"):
                continue
            where, code = f"{page}, line {block.line}", block.code
            if block.language == "diff":  # what a reader adds to the code of others
                code = "\n".join(
                    line[1:] for line in code.splitlines() if re.match(r"\+[^+]", line)
                )
            for node in ast.walk(ast.parse(code)):
                if name := name_of_ours(node):
                    assert name in dir(videoload), (where, name)
                if not isinstance(node, ast.Call) or not (name := name_of_ours(node.func)):
                    continue
                if name not in OF_KERAS and callable(made := getattr(videoload, name)):
                    taken = inspect.signature(made).parameters.values()
                    if all(one.kind is not one.VAR_KEYWORD for one in taken):
                        given = {word.arg for word in node.keywords} - {None}
                        assert given <= {one.name for one in taken}, (where, name)
                        seen += 1
    assert seen > 100


def name_of_ours(node: ast.AST) -> str:
    """``name`` of an expression ``vl.name``."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("vl", "videoload"):
        return node.attr
    return ""


# Commands


GROUP: Any = typer.main.get_command(app)


def test_the_reference_of_the_command_line_agrees_with_the_commands() -> None:
    assert command_line.PAGE.read_text() == command_line.page(), (
        "make it anew: python scripts/command_line.py"
    )


def test_every_command_that_a_page_names_exists() -> None:
    for page, text in PAGES.items():
        for name in re.findall(r"`videoload ([a-z]+)", text):
            assert name in GROUP.commands, (page, name)


@pytest.mark.slow
@needs_tensorflow
def test_the_demo_runs(programs: Programs, materials: Path) -> None:
    """The README's first command, on few videos, and timed for a few steps."""
    options = ("--videos", str(materials / "shapes"), "--epochs", "1")
    program = programs.python("-m", "tests.support.small_demo", *options, imported="tensorflow")
    assert program.wait(150 * SECOND) == 0, program.err
    for told in ("8 videos", "4 classes: down, left, right, up", "25%", "waited", "no decoding"):
        assert told in program.out


# Links; mkdocs checks the links within docs/


def test_links_to_files_of_the_repository_exist() -> None:
    for page in [*PAGES, *SITES]:
        text = (PROJECT / page).read_text()
        within = re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", text)
        without = re.findall(r"github\.com/videoload/videoload/(?:blob|tree)/main/([^)#\s]+)", text)
        for link in within:
            assert ((PROJECT / page).parent / link).exists(), (page, link)
        for link in without:
            assert (PROJECT / link).exists(), (page, link)
        for file in re.findall(r"`(\w+/[\w/]*\w\.py)`", text):
            places = (PROJECT / file, PROJECT / "videoload" / file, PROJECT / "tests" / file)
            assert any(place.exists() for place in places), (page, file)
