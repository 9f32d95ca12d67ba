"""The project's own files: one version, and the same checks everywhere."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.support.waiting import SECOND

PROJECT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())


GITHUB = PROJECT / ".github"


def test_the_workflows_are_valid() -> None:
    schema = "vendor.github-workflows"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    files = [*GITHUB.glob("workflows/*.yml")]
    assert files
    subprocess.run([*check, *files], check=True, timeout=60 * SECOND, capture_output=True)


def test_actions_are_pinned_by_digest() -> None:
    for workflow in GITHUB.glob("workflows/*.yml"):
        for used in re.findall(r"uses: (.+)", workflow.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), (workflow.name, used)


def test_links_and_pictures_of_the_readme_work_elsewhere() -> None:
    """As the hook of hatch writes them into the metadata."""
    text = (PROJECT / "README.md").read_text()
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    found = re.findall(r"(!?)\[[^\]]+\]\(([^)]+)\)", text)
    assert sum(picture == "!" for picture, _ in found) >= 2
    for picture, link in found:
        host = "raw.githubusercontent.com" if picture else "github.com"
        middle = "main/" if picture else "blob/main/"
        begin = f"https://{host}/videoload/videoload/{middle}"
        assert link.startswith(begin), link
        assert (PROJECT / link.removeprefix(begin).partition("#")[0]).exists(), link


def test_the_tests_that_the_promises_name_exist() -> None:
    page = (PROJECT / "docs/rely/promises.md").read_text()
    named = re.findall(r"`((?:unit|integration|faults)/[\w/]+\.py)`", page)
    assert named
    assert not [path for path in named if not (PROJECT / "tests" / path).exists()]
