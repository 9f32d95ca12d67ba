"""README and docs/ are true: their code runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

import videoload
from scripts import command_line
from tests.support.layouts import films
from tests.support.needs import needs_tensorflow
from tests.support.pages import Block, Step, as_json, blocks, commands, steps
from tests.support.ports import free_ports
from tests.support.programs import COMMANDS, Programs
from tests.support.videos import make_avi, make_lengths
from tests.support.waiting import SECOND
from videoload import ClipSpec
from videoload.commands.cli import app
from videoload.commands.made_videos import make_videos

pytestmark = pytest.mark.timeout(400 * SECOND)

PROJECT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(PROJECT).as_posix(): path.read_text()
    for path in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
}
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
    ("docs/scale/hosts.md", "VIDEOS=/data/ucf101 docker compose up",
     "needs Docker; test_services.py runs what the file says"),
    ("docs/operate/workers.md", "VIDEOS=/data/ucf101 docker compose", "needs Docker"),
    ("docs/scale/hosts.md", "scp", "needs another host"),
    ("docs/scale/hosts.md", "docker compose", "needs Docker"),
    ("docs/scale/hosts.md", "export VIDEOS=", "is for Docker"),
    ("docs/scale/hosts.md", "REGISTRY=", "needs Docker; test_compose.py reads the file"),
    *(("docs/scale/kubernetes.md", f"kubectl {command}",
       "needs a cluster; test_kubernetes.py runs what the files say")
      for command in ("kustomize mine", "apply -k mine", "logs", "create secret", "delete job")),
    ("docs/data/bucket.md", "videoload worker",
     "needs a bucket; integration/test_remote.py starts one"),
    *(("docs/scale/slurm.md", words, "needs Slurm; test_slurm.py runs it")
      for words in ("export VIDEOLOAD_VIDEOS=", "trainer=", "sbatch")),
    ("docs/operate/workers.md", "videoload top", "needs a trainer; test_top.py runs it"),
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
    QUICK, "README.md", "docs/start/tutorial.md", "docs/rely/promises.md", "docs/reference/api.md",
    "docs/data/catalogs.md", "docs/data/open.md", "docs/jobs/behaviour.md", "docs/jobs/numbers.md",
    "docs/jobs/points.md", "docs/jobs/pulse.md",
]  # fmt: skip

# Pages that need packages that the `dev` extra does not install.
NEEDS = {
    "docs/data/bucket.md": "obstore",
    "docs/train/pytorch.md": "torch",
    "docs/train/jax.md": "jax",
    "docs/train/any-length.md": "torch",
    "docs/operate/workers.md": "prometheus_client",
}
# Not imported by the page itself.
OF_AN_EXTRA = {"prometheus_client": "`[metrics]`"}

# Pages whose program runs once for each rank, and how a rank learns which one it is.
RANKS = {"docs/train/gpus.md": "TF_CONFIG", "docs/train/pytorch.md": "torchrun"}

# Pages that find in their second run what they saved in their first.
TWICE = ("docs/train/gpus.md", "docs/train/pytorch.md", "docs/train/resume.md")

# Runs before a page's own blocks.
BEFORE = {
    "README.md": """
import keras
model = keras.Sequential([
    keras.layers.Rescaling(1 / 255), keras.layers.GlobalAveragePooling3D(), keras.layers.Dense(3)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
net = lambda clips, labels: clips.mean()
""",
    # A host without GPUs has one device; with two, something is mirrored.
    "docs/train/keras.md": """
import functools
import tensorflow as tf
one = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(one, [tf.config.LogicalDeviceConfiguration()] * 2)
both = ["CPU:0", "CPU:1"]
tf.distribute.MirroredStrategy = functools.partial(tf.distribute.MirroredStrategy, both)
""",
}  # fmt: skip

SLOW_TO_IMPORT = ("tensorflow", "torch")
OF_KERAS = ("Position",)  # its module imports Keras
TENSORFLOW = re.compile(r"import (keras|tensorflow)|vl\.Position|\.dataset\(")


def skipped(page: str, line: str) -> bool:
    return any(where == page and line.startswith(text) for where, text, _ in NOT_RUN)


def todo(page: str) -> list[Step]:
    """The steps of a page, on this host."""
    text = PAGES[page]
    for said, here in HERE.items():
        text = text.replace(said, here)
    found = steps(text, lambda line: skipped(page, line))
    lacks = page == "README.md" and importlib.util.find_spec("torch") is None
    return [step for step in found if not (lacks and "vl.torch" in step.code)]


def run_page(
    programs: Programs, page: str, what: list[Step], folder: Path, imported: str = ""
) -> list[str]:
    """Carry out ``what`` in one process for each rank; returns their output. Fails if one does not
    end well."""
    ranks = 2 if page in RANKS else 1
    ports = free_ports(3)
    said = re.sub(r":555([56])\b", lambda port: f":{ports[int(port[1]) - 5]}", as_json(what))
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
        if RANKS.get(page) == "TF_CONFIG":
            environment["TF_CONFIG"] = json.dumps(config)
        if RANKS.get(page) == "torchrun":
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
    make_videos(folder / "shapes", train_per_class=2, test_per_class=1, frames=40)
    make_avi(folder / "ntu/S001.avi", frames=30, size=(60, 80))
    films(folder)
    for name, lengths in (("hello", range(9, 39)), ("thanks", range(20, 80, 2))):
        make_lengths(folder / "signs", lengths, f"{name}/")
    for number in range(3):
        make_avi(folder / f"miniscope/m1/{number}.avi", frames=12, size=(60, 80))
    (folder / "train.csv").write_text(
        "path,label,start,end\nS001.avi,sit,0,10\nS001.avi,wave,10,\n"
    )
    return folder


@pytest.fixture
def folder(materials: Path, tmp_path: Path) -> Path:
    """A folder of its own for one page."""
    return Path(shutil.copytree(materials, tmp_path / "page"))


def pages_to_run() -> list[Any]:
    """All pages with code. A page that is not quick is slow."""
    marks = {page: [] if page in USUAL else [pytest.mark.nightly] for page in PAGES if todo(page)}
    return [
        pytest.param(page, marks=[*marks[page], *([] if page == QUICK else [pytest.mark.slow])])
        for page in marks
    ]


@pytest.mark.parametrize("page", pages_to_run())
def test_the_code_of_a_page_runs(page: str, programs: Programs, folder: Path) -> None:
    needed = [NEEDS[page]] if page in NEEDS else []
    needed += ["tensorflow"] if TENSORFLOW.search(PAGES[page]) else []
    for name in needed:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    imported = next((name for name in needed if name in SLOW_TO_IMPORT), COMMANDS)
    before = [Step("python", 1, BEFORE[page])] if page in BEFORE else []
    for _ in range(2 if page in TWICE else 1):
        run_page(programs, page, before + todo(page), folder, imported)


# The tables above are exact


def test_every_line_that_is_not_run_exists() -> None:
    for page, text, _ in NOT_RUN:
        lines = [
            line
            for block in blocks(PAGES[page])
            if block.language == "sh"
            for _, line in commands(block)
        ]
        assert [line for line in lines if line.startswith(text)], (page, text)


def test_every_replacement_for_this_host_is_used() -> None:
    for said in HERE:
        assert any(said in text for text in PAGES.values()), said


@pytest.mark.parametrize("page", NEEDS)
def test_what_a_page_needs_is_what_it_imports(page: str) -> None:
    extra, page_text = OF_AN_EXTRA.get(NEEDS[page]), PAGES[page]
    assert (
        extra in page_text
        if extra
        else re.search(rf"^(import|from) {NEEDS[page]}\b", page_text, re.M)
    )


def test_from_split_files_to_the_worst_mistakes_are_at_most_45_lines() -> None:
    [block] = [b for b in blocks(PAGES["docs/train/evaluate.md"]) if "testlist01" in b.code]
    assert all(word in block.code for word in ("model.fit", "confusion()", "worst("))
    assert len(block.code.splitlines()) <= 45


def test_every_page_with_special_treatment_exists() -> None:
    assert {*NEEDS, *RANKS, *TWICE, *BEFORE, *USUAL} <= PAGES.keys()


def test_every_page_uses_names_and_arguments_that_exist() -> None:
    """Of the pages that run at night, a push checks this."""
    seen = 0
    for page, text in PAGES.items():
        for block in blocks(text):
            if block.language != "python":
                continue
            where = f"{page}, line {block.line}"
            for node in ast.walk(ast.parse(block.code)):
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


# The blocks are found, and a page that is wrong fails


def test_blocks_become_the_steps_of_a_reader() -> None:
    page = (
        "```python\nx = 1\n```\ntext `code` text\n"
        '```python title="a.py"\ny = 2\n\n```\n'
        "```sh\n# first\nvideoload scan DIR   # tells\nvideoload worker --root 'a b'\nls\n```\n"
        "```text\npython\n```\n```\npicture\n```\n"
    )
    assert [block.language for block in blocks(page)] == ["python", "python", "sh", "text", ""]
    assert blocks(page)[1] == Block("python", "a.py", "y = 2\n", 6)
    assert steps(page, lambda line: line == "ls") == [
        Step("python", 2, "x = 1"),
        Step("file", 6, "y = 2\n", "a.py"),
        Step("run", 11, command=("scan", "DIR")),
        Step("serve", 12, command=("worker", "--root", "a b")),
    ]
    with pytest.raises(ValueError, match="line 13: what is to be done with 'ls'"):
        steps(page, lambda line: False)


@pytest.mark.parametrize(
    ("page", "flaw"),
    [
        ("```python\nx = 1\n", "line 1: a block without an end"),
        ("text\n```py\nx = 1\n```\n", "line 2: an unknown fence"),
        ("- item\n  ```python\n  x = 1\n  ```\n", "line 2: an unknown fence"),
    ],
)
def test_a_block_that_would_be_skipped_is_an_error(page: str, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        blocks(page)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "line 6, in <module>"),
        ("```sh\nvideoload scan none\n```\n", "'scan', 'none'"),
        ("```sh\nvideoload keygen --no-such-option\n```\n", "No such option"),
        pytest.param(
            "```sh\nvideoload worker --connect tcp://127.0.0.1:5555 --root none\n```\n"
            "```python\nimport os\nos.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n```\n",
            "line 2: status 1, ended by itself: True",
            marks=pytest.mark.slow,
        ),
        ("```python\nimport warnings\nwarnings.warn('too few')\n```\n", "UserWarning: too few"),
    ],
    ids=["Python", "a command", "an option", "a server", "a warning"],
)
def test_a_page_that_is_wrong_fails(
    page: str, said: str, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "page").mkdir()
    with pytest.raises(AssertionError, match=re.escape(said)):
        run_page(programs, "README.md", steps(page, lambda line: False), tmp_path / "page")


@pytest.mark.slow
def test_the_blocks_of_a_page_share_a_namespace_files_and_commands(
    programs: Programs, tmp_path: Path
) -> None:
    page = (
        '```python title="mine.py"\nanswer = 42\n```\n'
        "```sh\nvideoload keygen keys\n```\n"
        "```python\nimport mine\n```\n"
        "```python\nfrom pathlib import Path\nassert Path('keys/trainer').is_dir()\n"
        "print('the answer is', mine.answer)\n```\n"
    )
    (tmp_path / "page").mkdir()
    [said] = run_page(
        programs, "README.md", steps(page, lambda line: False), tmp_path / "page", COMMANDS
    )
    assert "the answer is 42" in said


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


# The two commands of the README


def shell_blocks() -> list[str]:
    return [block.code for block in blocks(PAGES["README.md"]) if block.language == "sh"]


def test_the_two_commands_of_the_readme_are_one_line_each() -> None:
    demo, check = shell_blocks()[:2]
    assert demo.count("\n") == check.count("\n") == 0
    assert demo.endswith(".venv/bin/videoload demo")
    assert check.endswith("pip install -q -e '.[tensorflow,dev]' && scripts/check")


@pytest.mark.slow
@needs_tensorflow
def test_the_demo_runs(programs: Programs, materials: Path) -> None:
    """The README's first command, on few videos, and timed for a few steps."""
    options = ("--videos", str(materials / "shapes"), "--epochs", "1")
    program = programs.python("-m", "tests.support.small_demo", *options, imported="tensorflow")
    assert program.wait(150 * SECOND) == 0, program.err
    assert "8 videos to train on, 4 to test on, 4 classes: down, left, right, up" in program.out
    assert "of the test videos recognised (guessing: 25%)" in program.out
    assert "time that the trainer waited" in program.out
    assert "of the clips needed no decoding" in program.out


def test_ci_runs_the_second_command_of_the_readme(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / ".ci", tmp_path / ".ci")
    readme = PAGES["README.md"]
    for number, command in enumerate(shell_blocks()):
        readme = readme.replace(command, f"echo this is command {number}")
    (tmp_path / "README.md").write_text("```sh\necho another block\n```\n" + readme)
    done = subprocess.run(
        [tmp_path / ".ci/run"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["echo this is command 1", "this is command 1"]
    workflow = (PROJECT / ".github/workflows/check.yml").read_text()
    assert "- run: .ci/run\n" in workflow


def test_the_checks_run_without_an_activated_environment(tmp_path: Path) -> None:
    """They use the tools of the checkout's own environment, not those of the PATH."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    shutil.copy(PROJECT / "scripts/check", tmp_path / "scripts")
    for folder, word in (("bin", "wrong"), (".venv/bin", "right")):
        for tool in ("python", "ruff", "mypy", "mkdocs", "pytest"):
            program = tmp_path / folder / tool
            program.write_text(f"#!/bin/sh\necho {word} {tool} $*\n")
            program.chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(
        [tmp_path / "scripts/check", "-m", "not slow"],
        capture_output=True, text=True, check=True, timeout=60, env=environment,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "right ruff check .",
        "right ruff format --check .",
        "right mypy",
        "right mkdocs build --strict",
        "right pytest -m not slow",
    ]
    (tmp_path / ".venv/bin/mypy").write_text("#!/bin/sh\nexit 3\n")
    failed = subprocess.run(
        [tmp_path / "scripts/check"],
        capture_output=True, text=True, check=False, timeout=60, env=environment,
    )  # fmt: skip
    assert failed.returncode == 3
    assert "pytest" not in failed.stdout


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
        for file in re.findall(r"`(\w+/\w+\.py)`", text):
            places = (PROJECT / file, PROJECT / "videoload" / file)
            assert any(place.exists() for place in places), (page, file)


def test_the_tests_that_a_page_names_exist() -> None:
    files = list((PROJECT / "tests").rglob("test_*.py"))
    there = {name for path in files for name in (path.name, path.stem)}
    there |= {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    for page in [*PAGES, *SITES]:
        text = (PROJECT / page).read_text()
        assert {*re.findall(r"`(?:tests/\w+/)?(test_\w+(?:\.py)?)`", text)} <= there, page


def test_every_recipe_of_the_table_is_a_spec() -> None:
    rows = [line for line in PAGES["docs/data/clips.md"].splitlines() if line.startswith("| ")]
    told = [text for row in rows for text in re.findall(r"`(frames=[^`]+)`", row)]
    assert len(told) >= 11
    specs = [eval(f"ClipSpec({text})", {"ClipSpec": ClipSpec}) for text in told]
    assert len(set(specs)) == len(told)


# What the pages say about other libraries, at night


@pytest.mark.nightly
def test_an_iterator_of_a_dataset_cannot_be_saved(tf: Any, tmp_path: Path) -> None:
    batches = tf.data.Dataset.from_generator(
        lambda: iter(range(3)), output_signature=tf.TensorSpec((), tf.int64)
    )
    checkpoint = tf.train.Checkpoint(iterator=iter(batches.prefetch(2)))
    with pytest.raises(tf.errors.FailedPreconditionError, match="PyFunc is stateful"):
        checkpoint.save(str(tmp_path / "saved"))


BACKUP = """
import sys

import keras
import tensorflow as tf

seen = []


def note(number):
    seen.append(int(number))
    return tf.ones((2, 1)), tf.ones((2, 1))


def look(number):
    x, y = tf.py_function(note, [number], (tf.float32, tf.float32))
    return tf.ensure_shape(x, (2, 1)), tf.ensure_shape(y, (2, 1))


class Break(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if len(sys.argv) > 1 and int(self.model.optimizer.iterations) == 6:
            sys.exit(9)  # in the second epoch of four batches


model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
backup = keras.callbacks.BackupAndRestore("backup", save_freq=1)
model.fit(
    tf.data.Dataset.range(12).map(look), epochs=3, steps_per_epoch=4, verbose=0, shuffle=False,
    callbacks=[backup, Break()],
)
print("saw", seen[0], int(model.optimizer.iterations))
"""


@pytest.mark.nightly
@pytest.mark.slow
@needs_tensorflow
def test_backup_and_restore_does_not_restore_the_dataset(
    programs: Programs, tmp_path: Path
) -> None:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    broken = programs.script(BACKUP, "break", imported="tensorflow", cwd=tmp_path, env=environment)
    assert broken.wait(60 * SECOND) == 9, broken.err
    again = programs.script(BACKUP, imported="tensorflow", cwd=tmp_path, env=environment)
    assert again.wait(60 * SECOND) == 0, again.err
    first, trained = map(int, again.out.split("saw ")[1].split())
    assert trained > 6, "the model is the one that was saved"
    assert first == 0, "it continues with the dataset where it was: mend docs/train/resume.md"


ACCUMULATE = """
import keras
import numpy as np

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(gradient_accumulation_steps=4), "mse")
for _ in range(8):
    model.train_on_batch(np.ones((2, 1)), np.ones((2, 1)))
print("iterations", int(model.optimizer.iterations))
"""


@pytest.mark.nightly
@pytest.mark.slow
@needs_tensorflow
def test_the_iterations_of_an_optimizer_are_not_batches(programs: Programs) -> None:
    program = programs.script(ACCUMULATE, imported="tensorflow", env={"TF_CPP_MIN_LOG_LEVEL": "2"})
    assert program.wait(60 * SECOND) == 0, program.err
    assert "iterations 2\n" in program.out
