"""Worker processes as actors of a Ray cluster.

Ray places each actor on a CPU of its own, spreads actors over the nodes, starts them again
elsewhere when a node goes, and shows its autoscaler the actors without a place. An actor keeps
one worker process running, as `videoload worker` does. Pixels go from there straight to the
trainer. Keys travel through Ray's own store, and lie on a node in a folder of the actor's own.
"""

from __future__ import annotations

import logging
import socket
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from videoload.errors import VideoloadError, WorkerError
from videoload.processes.supervisor import watch
from videoload.transport.keys import TRAINER, WORKER
from videoload.transport.private_messages import WorkerSettings

_log = logging.getLogger(__name__)

_CONNECT_S = 5.0
_LEAVE_S = 1.5  # in which a worker hands its leases back
_ANSWER_S = 0.5  # in which an actor answers: its worker is another process
_PAUSE_S = 15.0  # before a node on which no worker can start tries again
_KEY_FILES = (f"{WORKER}.key_secret", f"{TRAINER}.key")


def connected(cluster: str | None = None) -> Any:
    """Ray's module, connected to a cluster: the one that this process is connected to already, or
    the one at this address, at ``$RAY_ADDRESS`` or on this host. Raises VideoloadError."""
    try:
        import ray
    except ImportError:
        raise VideoloadError(
            "Ray is not installed: pip install 'videoload[ray]', on every node of the cluster"
        ) from None
    if ray.is_initialized():
        return ray
    try:
        if cluster is not None and "://" not in cluster and ":" in cluster:
            host, _, port = cluster.rpartition(":")
            socket.create_connection((host, int(port)), _CONNECT_S).close()  # Ray waits a minute
        ray.init(cluster or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        at = f"at {cluster}" if cluster else "on this host; name one: --cluster, or RAY_ADDRESS"
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise VideoloadError(f"there is no Ray cluster {at}{why}") from None
    return ray


class Fleet:
    """Worker processes on a Ray cluster, until `close`."""

    def __init__(
        self, ray: Any, settings: WorkerSettings, options: Mapping[str, Any] | None = None
    ) -> None:
        """``ray`` is the module from `connected`. ``settings`` name a folder of this host for the
        keys. ``options`` are further options of each actor."""
        self._ray = ray
        folder = settings.keys
        keys = {} if folder is None else {n: Path(folder, n).read_bytes() for n in _KEY_FILES}
        self._arguments = settings.with_keys(None), keys
        # Spread, because a placement group of the trainer's own actor has no room.
        usual = {"num_cpus": 1, "max_restarts": -1, "scheduling_strategy": "SPREAD"}
        self._actor = self._ray.remote(_Actor).options(**{**usual, **(options or {})})
        self._closed = False
        self._lock = threading.Lock()
        self._actors: list[Any] = []

    @property
    def count(self) -> int:
        """How many workers there are to be."""
        return len(self._actors)

    @property
    def placed(self) -> int:
        """How many of them have a place: they answer. One that is being placed, for the first time
        or after its node was lost, does not."""
        with self._lock:
            asked = [actor.__ray_ready__.remote() for actor in self._actors]
        if not asked:
            return 0
        answers, unanswered = self._ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_S)
        for each in unanswered:  # else they would pile up at an actor that finds no place
            self._ray.cancel(each)
        return sum(map(self._is_good, answers))

    def _is_good(self, answer: Any) -> bool:
        try:
            self._ray.get(answer)
        except self._ray.exceptions.RayError:  # its node was lost
            return False
        return True

    @property
    def cpus(self) -> int:
        """CPUs of the cluster."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def scale(self, workers: int) -> None:
        """Change how many workers there are to be. Surplus workers hand their leases back."""
        with self._lock:
            workers = 0 if self._closed else workers
            while len(self._actors) < workers:
                self._actors.append(self._actor.remote(*self._arguments))
            leaving, self._actors = self._actors[workers:], self._actors[:workers]
        self._end(leaving)

    def close(self) -> None:
        """End all of them. Takes two seconds at most."""
        self._closed = True
        if self._ray.is_initialized():
            self.scale(0)

    def _end(self, actors: Sequence[Any]) -> None:
        left = [actor.leave.remote() for actor in actors]
        if left:
            self._ray.wait(left, num_returns=len(left), timeout=_LEAVE_S)
        for actor in actors:
            self._ray.kill(actor)


class _Actor:
    """Keeps a worker process running on a node. The process ends with the actor."""

    def __init__(self, settings: WorkerSettings, keys: Mapping[str, bytes]) -> None:
        self._settings, self._keys = settings, keys
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """End the worker, which hands its leases back."""
        self._leaving.set()
        self._thread.join(_LEAVE_S)

    def _keep_running(self) -> None:
        while not self._leaving.is_set():
            try:
                self._run()
            except (WorkerError, OSError) as error:  # no process, or no place for the keys
                _log.warning("%s; trying again in %g s", error, _PAUSE_S)
                self._leaving.wait(_PAUSE_S)

    def _run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="videoload-") as folder:  # its owner's alone
            for name, data in self._keys.items():
                Path(folder, name).write_bytes(data)
            settings = self._settings.with_keys(folder if self._keys else None)
            with closing(watch(1, settings)) as states:
                for _ in states:
                    if self._leaving.is_set():
                        return
