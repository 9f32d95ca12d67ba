"""The program that `tests/unit/worker/test_child.py` starts. It prints what it inherited, and
then waits."""

import json
import os
import signal
import socket
import sys

from videoload import native
from videoload.worker.child import inherited

if __name__ == "__main__":
    asked, *others = inherited()
    told = {
        "arguments": sys.argv[1:],
        "given": [os.read(descriptor, 100).decode() for descriptor in others],
        "ignored": [
            number.name
            for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
            if signal.getsignal(number) == signal.SIG_IGN
        ],
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "switched_off": native.switched_off(),
        "threads": os.environ["OMP_NUM_THREADS"],
    }
    with socket.socket(fileno=asked) as channel:
        channel.sendall(json.dumps(told).encode() + b"\n")
        wanted = channel.recv(100)
        if wanted == b"stay":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            channel.sendall(b"I stay\n")
        elif wanted == b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif wanted:
            sys.exit(int(wanted))
        channel.recv(1)
