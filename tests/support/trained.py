"""What tests of deployments give to the example trainer, and what it prints for an epoch."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.videos import make_avi
from videoload import Catalog, ClipSpec, decode_serially

VIDEOS_OF_A_CLASS = 5  # of which four are trained on
SMALL = {"SIZE": "32", "FRAMES": "4", "BATCH_SIZE": "2"}
STEPS = 4  # batches an epoch


def make_classes(root: Path) -> None:
    """Two classes of small videos."""
    for seed, name in enumerate(("jump", "run")):
        for number in range(VIDEOS_OF_A_CLASS):
            make_avi(root / name / f"{number}.avi", frames=12, size=(36, 48), seed=7 * seed)


def expected(videos: Path, shard: tuple[int, int] = (0, 1)) -> str:
    """What the trainer prints with ``--verify`` if all is well."""
    train, _ = Catalog.train_and_test(videos, 0)
    clip = ClipSpec(4, 2, resize=32, size=(32, 32), sampling="random", crop="random", flip=True)
    sha = hashlib.sha256()
    for clips, labels in decode_serially(train, clip, 2, shuffle=True, seed=0, shard=shard):
        sha.update(clips.data)
        sha.update(labels.data)
    return f"verified: {sha.hexdigest()}"
