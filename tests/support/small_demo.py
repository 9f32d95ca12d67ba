"""`videoload demo` with few videos of its own, few timed steps, and a line about each step:

python -m tests.support.small_demo [OPTIONS]
"""

import sys
from typing import Any
from unittest import mock

from videoload.tools import cli, demo


def main() -> None:
    """The command line."""
    few: Any = {"_TRAIN_VIDEOS": 4, "_TEST_VIDEOS": 1, "_MEASURED_STEPS": 4, "_WARM_UP_STEPS": 1}
    few["_REPORT_S"] = 0.0
    with mock.patch.multiple(demo, **few):
        sys.argv.insert(1, "demo")
        cli.main()


if __name__ == "__main__":
    main()
