"""``python -m videoload.worker``: a worker process that this host's supervisor started."""

import sys

from videoload.worker.worker import main

if __name__ == "__main__":
    sys.exit(main())
