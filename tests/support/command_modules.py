"""What the commands import, above all ``videoload worker``.

`Programs.videoload` forks from a process that has imported this module (see
`tests.support.forked`). The tests start some two hundred commands, and each would spend a third of
a second of a core on its imports.
"""

import importlib
from contextlib import suppress

import videoload.catalog.folders
import videoload.storage.cache_directories
import videoload.storage.roots
import videoload.tools.cli
import videoload.worker.supervisor
import videoload.worker.worker  # noqa: F401

with suppress(ImportError):
    importlib.import_module("typer._adapters")  # typer imports it, and pydantic, for a command
