"""The loader stands without what is built upon it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import videoload
from tests.support.videos import Videos
from tests.support.waiting import SECOND

TRAINING = """
import sys
import videoload as vl

catalog = vl.Catalog.from_folder(sys.argv[1])
clip = vl.ClipSpec(frames=4, resize=36, size=32, sampling="random")
same = {"batch_size": 3, "shuffle": True, "seed": 0}
with vl.Client(workers=1) as client:
    stream = client.stream(catalog, clip, **same)
    pairs = list(zip(stream, vl.decode_serially(catalog, clip, **same), strict=True))
assert all(a.tobytes() == b.tobytes() for (a, _), (b, _) in pairs), "other batches"
print(len(pairs), "batches by", vl.__file__)
"""


def test_a_stream_and_its_workers_need_nothing_of_the_tools(videos: Videos, tmp_path: Path) -> None:
    package = tmp_path / "videoload"
    leave_out = shutil.ignore_patterns("tools", "__pycache__")
    shutil.copytree(Path(videoload.__file__).parent, package, ignore=leave_out)
    (tmp_path / "train.py").write_text(TRAINING)
    done = subprocess.run(
        [sys.executable, "train.py", str(videos.root)],
        cwd=tmp_path,
        timeout=60 * SECOND,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert f"2 batches by {package}" in done.stdout
