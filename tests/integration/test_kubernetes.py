"""The keys of services/kubernetes/: what the pods of trainer and workers mount lets a worker in.

Kubernetes' own part is not tested. What trainer and workers run is that of test_services.py.
"""

from base64 import b64decode
from pathlib import Path

from tests.support.digests import digest
from tests.support.kubernetes import one, pods, render
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, decode_serially

CLIP = ClipSpec(frames=2, resize=32, size=(32, 32))


def mounted(role: str, at: Path) -> str:
    """The keys of a pod, as Kubernetes mounts them."""
    objects = render("mine")
    [secret] = [each["secret"] for each in pods(objects)[role]["volumes"] if "secret" in each]
    data = one(objects, "Secret", secret["secretName"])["data"]
    for item in secret["items"]:
        file = at / "..data" / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b64decode(data[item["key"]]))
        file.chmod(secret["defaultMode"])
        top = Path(item["path"]).parts[0]
        (at / top).symlink_to(f"..data/{top}")
    return str(at)


def test_the_keys_that_an_overlay_generates_let_the_workers_in(
    programs: Programs, videos: Videos, tmp_path: Path
) -> None:
    trainer, worker = (mounted(role, tmp_path / role) for role in ("trainer", "worker"))
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        programs.worker(client.endpoints[0], videos.root, "--keys", worker)
        client.wait_for_workers(1, 60 * SECOND)
        stream = client.stream(videos.catalog, CLIP, 2)
        assert digest(stream) == digest(decode_serially(videos.catalog, CLIP, 2))
