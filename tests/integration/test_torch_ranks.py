"""Two ranks of PyTorch's DistributedDataParallel, stopped in mid-epoch, and started again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.needs import needs_torch
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import ClipSpec, decode_serially

pytestmark = [pytest.mark.timeout(180 * SECOND), pytest.mark.slow, needs_torch]

CLIP = ClipSpec(frames=4, size=(32, 40), crop="stretch", sampling="random", clips_per_video=3)
STOPPED = 2

RANK = """
    import json
    import sys
    import zlib
    from pathlib import Path

    import torch
    import torch.distributed as dist
    import videoload as vl
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    root, folder, rank, stop, *runs = sys.argv[1:]
    folder, rank, stop = Path(folder), int(rank), int(stop)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/{runs[0]}", rank=rank, world_size=2)
    clip = vl.ClipSpec(
        frames=4, size=(32, 40), crop="stretch", sampling="random", clips_per_video=3
    )


    def train(client, saved, stop):
        torch.manual_seed(5)
        model = DistributedDataParallel(
            nn.Sequential(nn.Conv3d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
                          nn.Linear(4, 3))
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        stream = client.stream(
            vl.Catalog.from_folder(root), clip, 2, shuffle=True, seed=3, shard=(rank, 2)
        )
        if saved.exists():
            state = torch.load(saved)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            stream.load_state_dict(state["stream"])
        seen = []
        for clips, labels in vl.torch.batches(stream):
            seen.append([zlib.crc32(clips.numpy().tobytes()), *labels.tolist()])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(clips), labels).backward()
            optimizer.step()
            if len(seen) == stop:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "stream": stream.state_dict()}, saved)
                break
        weights = torch.cat([part.detach().flatten() for part in model.parameters()])
        return [seen, weights.tolist(), len(stream)]


    with vl.Client(workers=1) as client:
        for run in runs:
            saved = folder / f"{'none' if run == 'whole' else 'state'}{rank}.pt"
            found = train(client, saved, stop if run == "before" else 0)
            (folder / f"{run}{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
"""


def test_two_ranks_stopped_in_mid_epoch_go_on_with_the_same_batches_and_weights(
    videos: Videos, tmp_path: Path, programs: Programs
) -> None:
    for runs in (("whole", "before"), ("after",)):
        ranks = [
            programs.script(
                RANK, str(videos.root), str(tmp_path), rank, str(STOPPED), *runs, imported=""
            )
            for rank in "01"
        ]
        for program in ranks:
            assert program.wait(100 * SECOND) == 0, program.err
    whole, before, after = (
        [json.loads((tmp_path / f"{run}{rank}.json").read_text()) for rank in (0, 1)]
        for run in ("whole", "before", "after")
    )
    for rank in (0, 1):
        seen, weights, steps = whole[rank]
        assert len(seen) == steps > len(before[rank][0]) == STOPPED
        assert before[rank][0] + after[rank][0] == seen
        assert after[rank][1] == pytest.approx(weights, abs=1e-6)
        serial = decode_serially(videos.catalog, CLIP, 2, shuffle=True, seed=3, shard=(rank, 2))
        assert [labels for _, *labels in seen] == [labels.tolist() for _, labels in serial]
    assert whole[0][1] == whole[1][1], "the ranks have one model"
