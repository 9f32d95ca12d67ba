"""A page as a real browser shows it: headless Chromium."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.waiting import SECOND

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
