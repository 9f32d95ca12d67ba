"""`videoload demo` with few videos of its own, and few timed steps:

python -m tests.support.small_demo [OPTIONS]
"""

import sys
from unittest import mock

from videoload.commands import cli, demo


def main() -> None:
    """The command line."""
    with (
        mock.patch.multiple(demo, _TRAIN_VIDEOS=4, _TEST_VIDEOS=1),
        mock.patch.dict(demo.measure_waiting.__kwdefaults__, steps=4, warm_up_steps=1),
    ):
        sys.argv.insert(1, "demo")
        cli.main()


if __name__ == "__main__":
    main()
