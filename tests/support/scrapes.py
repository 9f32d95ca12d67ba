"""Reads a metrics port."""

import urllib.error
import urllib.request

from tests.support.waiting import SECOND


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text, also for an error status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60 * SECOND) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
