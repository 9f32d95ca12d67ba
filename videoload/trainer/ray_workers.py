"""`RayWorkers`: workers of a client on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from videoload.arguments import whole
from videoload.engine.auto_workers import LOOK_S, AutoWorkers
from videoload.errors import ClosedError, SpecError
from videoload.index.cache_folder import cache_folder
from videoload.processes.ray_fleet import Fleet, connected
from videoload.storage.keep import Folders
from videoload.storage.roots import is_url
from videoload.trainer.client import Client
from videoload.transport.private_messages import WorkerSettings
from videoload.transport.sockets import check_dial

_log = logging.getLogger(__name__)

_AT_FIRST = 2  # With "auto", until the speed of a worker is known.
_ANY_HOST = ("0.0.0.0", "::", "*")


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
        client: Made with ``listen=``: an address that the cluster's nodes can reach.
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
        SpecError: The client has no address for others, or ``root`` is not absolute.
        TransportError: An address cannot be dialled, or needs keys.
        VideoloadError: Ray is not installed, or there is no cluster.
    """

    def __init__(
        self,
        client: Client,
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
        if not client.endpoints:
            raise SpecError("the client has no address for workers of other hosts: give it listen=")
        if not is_url(root) and not Path(root).is_absolute():
            raise SpecError(f"root is a path on other hosts, so it must be absolute, got {root!r}")
        ray = connected(cluster)
        addresses = [connect] if isinstance(connect, str) else list(connect or ())
        addresses = addresses or _addresses(client, str(ray.util.get_node_ip_address()))
        for address in addresses:
            check_dial(address, keys=keys, insecure=insecure)
        settings = WorkerSettings(
            addresses,
            root=os.fspath(root),
            keys=None if keys is None else os.fspath(keys),
            insecure=insecure,
            transforms=list(allow),
            folders=Folders.of(
                cache_folder(cache), keep, keep_gb, frame_store, frame_store_gb, elsewhere=True
            ),
        )
        self._fleet = Fleet(ray, settings, options)
        self._stop = threading.Event()
        self._finalizer = weakref.finalize(self, _end, self._fleet, self._stop)
        self._fleet.scale(count)
        if auto:
            follow = threading.Thread(
                target=_follow, args=(weakref.ref(client), self._fleet, most, self._stop),
                name="videoload-ray", daemon=True,
            )  # fmt: skip
            follow.start()

    @property
    def count(self) -> int:
        """The number of workers asked for. Some may have no place yet: see ``placed``."""
        return self._fleet.count

    @property
    def placed(self) -> int:
        """The number of workers that Ray has found a place for."""
        return self._fleet.placed

    def scale(self, workers: int) -> None:
        """Change the number of workers. Workers that are stopped hand back their leases.

        Args:
            workers: Their number, 0 or more.

        Raises:
            SpecError: ``workers`` is not a count.
            ClosedError: These workers are closed.
        """
        workers = whole("workers", workers, 0)
        if not self._finalizer.alive:
            raise ClosedError("these workers are closed; make new ones")
        self._fleet.scale(workers)

    def close(self) -> None:
        """End the workers. May be called more than once; takes two seconds at most."""
        self._finalizer()

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RayWorkers({self.count if self._finalizer.alive else 'closed'})"


def _addresses(client: Client, here: str) -> list[str]:
    """The addresses at which workers of other hosts reach a client. ``here``: this host's one."""
    found = []
    for endpoint in client.endpoints:
        parts = urlsplit(endpoint)
        host = here if parts.hostname in _ANY_HOST else parts.hostname
        found.append(f"tcp://{f'[{host}]' if ':' in str(host) else host}:{parts.port}")
    return found


def _follow(client: weakref.ref[Client], fleet: Fleet, most: int, stop: threading.Event) -> None:
    """Have as many workers as the streams need. An error here ends only this thread."""
    auto = AutoWorkers(most)
    try:
        while not stop.wait(LOOK_S) and (owner := client()) is not None:
            need, have = owner._engine.local.needed(), fleet.count
            keep = auto.decide(have, max(0, len(owner.workers) - fleet.placed), need)
            del owner
            if keep is not None and need is not None:
                fleet.scale(keep)
                what = f"{have - keep} given back" if keep < have else f"{keep - have} more"
                _log.info("workers on Ray: %s, %d now; the trainer keeps %.1f busy",
                          what, keep, need)  # fmt: skip
    except Exception:
        _log.exception(
            "workers on Ray stay %d: the number that is needed is not known", fleet.count
        )


def _end(fleet: Fleet, stop: threading.Event) -> None:
    stop.set()
    fleet.close()
