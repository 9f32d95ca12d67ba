"""`RayWorkers`: worker processes as actors of a Ray cluster.

Ray places each actor on a CPU of its own, spreads actors over the nodes, starts them again
elsewhere when a node goes, and shows its autoscaler the actors without a place. An actor keeps
one worker process running, as `videoload worker` does. Pixels go from there straight to the
trainer. Keys travel through Ray's own store, and lie on a node in a folder of the actor's own.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from videoload.arguments import whole
from videoload.engine.auto_workers import LOOK_S, AutoWorkers
from videoload.errors import ClosedError, SpecError, VideoloadError, WorkerError
from videoload.index.cache_folder import cache_folder
from videoload.processes.supervisor import watch
from videoload.storage.keep import Folders
from videoload.storage.roots import is_url
from videoload.trainer.client import Client
from videoload.transport.keys import TRAINER, WORKER
from videoload.transport.private_messages import WorkerSettings
from videoload.transport.sockets import check_dial

_log = logging.getLogger(__name__)

_AT_FIRST = 2  # With "auto", until the speed of a worker is known.
_ANY_HOST = ("0.0.0.0", "::", "*")
_CONNECT_S = 5.0
_LEAVE_S = 1.5  # in which a worker hands its leases back
_ANSWER_S = 0.5  # in which an actor answers: its worker is another process
_PAUSE_S = 15.0  # before a node on which no worker can start tries again
_KEY_FILES = (f"{WORKER}.key_secret", f"{TRAINER}.key")


class RayWorkers:
    """Worker processes on a Ray cluster that decode for a client.

    Each is an actor with a CPU of its own. Ray spreads the actors over its nodes and starts them
    again elsewhere if a node fails. If Ray has an autoscaler, it adds nodes for actors that have no
    place. Batches do not depend on any of this. The nodes need videoload and the videos.

    Use it in a ``with`` statement, or call `close`: it ends the workers. They also end with the
    trainer's process, however that ends.

        with (
            vl.Client(workers=0, listen="tcp://0.0.0.0:5555", keys="keys/trainer") as client,
            vl.ray.RayWorkers(client, 16, root="/data/ucf101", keys="keys/worker"),
        ):
            stream = client.stream(catalog, clip, batch_size=8)

    Args:
        client: Made with ``listen=``: an address that the cluster's nodes can reach. None:
            ``connect`` names the trainers, and ``workers`` is a number.
        workers: Number of workers, 0 or more. ``"auto"``, the default: a quarter more than keep the
            client's streams from waiting; each change is logged (INFO).
        root: Where the videos are on the nodes: an absolute path, or a URL as for a catalog's root.
        connect: Addresses at which workers reach the client. None, the default: the client's own,
            with this node's address in the place of a wildcard.
        keys: Folder of this host with a worker's CURVE keys, as made by ``videoload keygen``. They
            reach the nodes through Ray's own store. None, the default: no keys.
        insecure: Dial other hosts without keys. Default False.
        allow: Python modules whose functions a spec may name as ``transform`` or ``load``. Default:
            none.
        cache: Folder on the nodes that keeps indexes of videos. None, the default, or False: as for
            `Client`.
        keep: Folder on the nodes that keeps files from below a URL. None, the default: none.
        keep_gb: Limit of ``keep`` on each node, in GB. None, the default: as for `Client`.
        frame_store: Folder on the nodes that keeps scaled frames. None, the default: none.
        frame_store_gb: Limit of ``frame_store`` on each node, in GB. None, the default: as for
            `Client`.
        most: Maximum number of workers with ``"auto"``. Default 64.
        cluster: Address of the cluster, if this process is not connected to one. None, the default:
            ``$RAY_ADDRESS``, or a cluster on this host.
        options: Further options of each actor, for ``ray.remote``: ``{"num_cpus": 2}``,
            ``{"resources": {"decoder": 1}}``, ``{"runtime_env": ...}``. Default: none.

    Raises:
        SpecError: Nothing says where the trainer is, or ``root`` is not absolute.
        TransportError: An address cannot be dialled, or needs keys.
        VideoloadError: Ray is not installed, or there is no cluster.
    """

    def __init__(
        self,
        client: Client | None,
        workers: int | Literal["auto"] = "auto",
        *,
        root: str | os.PathLike[str],
        connect: str | Sequence[str] | None = None,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        allow: Sequence[str] = (),
        cache: str | os.PathLike[str] | Literal[False] | None = None,
        keep: str | os.PathLike[str] | None = None,
        keep_gb: float | None = None,
        frame_store: str | os.PathLike[str] | None = None,
        frame_store_gb: float | None = None,
        most: int = 64,
        cluster: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        auto = isinstance(workers, str) and workers == "auto"
        most = whole("most", most, 1)
        count = min(_AT_FIRST, most) if auto else whole('workers (or "auto")', workers, 0)
        if client is None and (auto or not connect):
            raise SpecError("without a client, give a number of workers, and connect=")
        if client is not None and not client.endpoints:
            raise SpecError("the client has no address for workers of other hosts: give it listen=")
        if not is_url(root) and not Path(root).is_absolute():
            raise SpecError(f"root is a path on other hosts, so it must be absolute, got {root!r}")
        self._ray = _connected(cluster)
        addresses = [connect] if isinstance(connect, str) else list(connect or ())
        if client is not None and not addresses:
            addresses = _addresses(client, str(self._ray.util.get_node_ip_address()))
        for address in addresses:
            check_dial(address, keys=keys, insecure=insecure)
        settings = WorkerSettings(
            addresses,
            root=os.fspath(root),
            insecure=insecure,
            transforms=list(allow),
            folders=Folders.of(
                cache_folder(cache), keep, keep_gb, frame_store, frame_store_gb, elsewhere=True
            ),
        )
        self._arguments = (
            settings, {} if keys is None else {n: Path(keys, n).read_bytes() for n in _KEY_FILES}
        )  # fmt: skip
        # Spread, because a placement group of the trainer's own actor has no room.
        usual = {"num_cpus": 1, "max_restarts": -1, "scheduling_strategy": "SPREAD"}
        self._actor = self._ray.remote(_Actor).options(**{**usual, **(options or {})})
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._actors: list[Any] = []  # an actor ends with the last reference to it
        self.scale(count)
        if auto and client is not None:
            follow = threading.Thread(
                target=_follow, args=(weakref.ref(self), weakref.ref(client), most, self._closed),
                name="videoload-ray", daemon=True,
            )  # fmt: skip
            follow.start()

    @property
    def count(self) -> int:
        """The number of workers asked for. Some may have no place yet: see ``placed``."""
        return len(self._actors)

    @property
    def placed(self) -> int:
        """The number of workers that have a place, because they answer. A worker that is being
        placed, for the first time or after its node was lost, does not."""
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

    def scale(self, workers: int) -> None:
        """Change the number of workers. Workers that are stopped hand back their leases.

        Args:
            workers: Their number, 0 or more.

        Raises:
            SpecError: ``workers`` is not a count.
            ClosedError: These workers are closed.
        """
        workers = whole("workers", workers, 0)
        with self._lock:
            if self._closed.is_set():
                raise ClosedError("these workers are closed; make new ones")
            while len(self._actors) < workers:
                self._actors.append(self._actor.remote(*self._arguments))
            leaving, self._actors = self._actors[workers:], self._actors[:workers]
        self._end(leaving)

    def close(self) -> None:
        """End the workers. May be called more than once; takes two seconds at most."""
        with self._lock:
            self._closed.set()
            leaving, self._actors = self._actors, []
        if self._ray.is_initialized():
            self._end(leaving)

    def _end(self, actors: Sequence[Any]) -> None:
        left = [actor.leave.remote() for actor in actors]
        if left:
            self._ray.wait(left, num_returns=len(left), timeout=_LEAVE_S)
        for actor in actors:
            self._ray.kill(actor)

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RayWorkers({'closed' if self._closed.is_set() else self.count})"


def cluster_cpus(cluster: str | None) -> int:
    """CPUs of the cluster. Raises VideoloadError if there is none."""
    return int(_connected(cluster).cluster_resources().get("CPU", 0))


def _connected(cluster: str | None) -> Any:
    """Ray's module, connected to a cluster: the one that this process is connected to already, or
    the one at this address, at ``$RAY_ADDRESS`` or on this host. Raises VideoloadError."""
    try:
        import ray
    except ImportError:
        raise VideoloadError(
            "Ray is not installed: pip install ray, on every node of the cluster"
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


def _addresses(client: Client, here: str) -> list[str]:
    """The addresses at which workers of other hosts reach a client. ``here``: this host's one."""
    found = []
    for endpoint in client.endpoints:
        parts = urlsplit(endpoint)
        host = here if parts.hostname in _ANY_HOST else parts.hostname
        found.append(f"tcp://{f'[{host}]' if ':' in str(host) else host}:{parts.port}")
    return found


def _follow(
    of: weakref.ref[RayWorkers], client: weakref.ref[Client], most: int, closed: threading.Event
) -> None:
    """Have as many workers as the streams need. An error here ends only this thread."""
    auto = AutoWorkers(most)
    try:
        while not closed.wait(LOOK_S):
            workers, owner = of(), client()
            if workers is None or owner is None:
                return
            need, have = owner._engine.local.needed(), workers.count
            keep = auto.decide(have, max(0, len(owner.workers) - workers.placed), need)
            if keep is not None and need is not None:
                workers.scale(keep)
                what = f"{have - keep} given back" if keep < have else f"{keep - have} more"
                _log.info("workers on Ray: %s, %d now; the trainer keeps %.1f busy",
                          what, keep, need)  # fmt: skip
            del workers, owner
    except ClosedError:
        pass
    except Exception:
        _log.exception("the number of workers on Ray stays: the needed number is not known")


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
            if self._keys:
                self._settings.keys = folder
            with closing(watch(1, self._settings)) as states:
                for _ in states:
                    if self._leaving.is_set():
                        return
