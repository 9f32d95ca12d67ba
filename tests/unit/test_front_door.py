"""What is missing where videoload is imported is told in one line."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("missing", "code", "told"),
    [
        ("jax", "videoload.jax.to_rgb(None)", "VideoloadError: JAX"),
        ("tensorflow", "videoload.keras", "VideoloadError: videoload.keras"),
        (
            "tensorflow",
            "from videoload.frameworks import tfdata; tfdata.dataset(None, None)",
            "sequence()",
        ),
        ("resource", "", "Error: "),  # Windows
    ],
)
def test_what_is_missing_is_told_in_one_line(missing: str, code: str, told: str) -> None:
    before = f"import sys; sys.modules[{missing!r}] = None"
    if missing == "resource":
        before += "; sys.platform = 'win32'"
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\nimport videoload\n{code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert told in last
