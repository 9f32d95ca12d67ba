"""Videos of which a part is damaged: the rest is used, the same way serially and by workers."""

from __future__ import annotations

from typing import Any, Literal

import av
import pytest

from tests.support.digests import digests
from tests.support.videos import make_avi
from videoload import Catalog, Client, ClipSpec, decode_serially


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Six good files, and two whose beginning alone can be decoded."""
    folder = tmp_path_factory.mktemp("torn")
    for seed in range(6):
        make_avi(folder / f"all/good{seed}.avi", frames=30, seed=seed)
    for seed in range(2):
        made = make_avi(folder / f"all/torn{seed}.avi", frames=130, codec="utvideo", seed=9 + seed)
        with av.open(str(made)) as container:
            packets = [packet for packet in container.demux() if packet.size]
            places = [(packet.pos or 0, packet.size) for packet in packets]
        data = bytearray(made.read_bytes())
        for at, size in places[20:]:
            data[at + 8 : at + 8 + size] = bytes(size)  # after the chunk's own header
        made.write_bytes(data)
    return Catalog.from_folder(folder)


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_the_sound_rest_of_a_video_with_one_damaged_place_is_used_by_every_way(
    on_error: Literal["substitute", "skip"], torn: Catalog, client: Client
) -> None:
    clip = ClipSpec(4, size=(32, 32), resize=48, sampling="uniform", clips_per_video=10)
    how: dict[str, Any] = {"shuffle": True, "max_bad": 1.0, "on_error": on_error}
    serial = digests(decode_serially(torn, clip, 2, epochs=2, info=True, **how))
    stream = client.stream(torn, clip, 2, **how)
    assert digests(stream.batches(epochs=2, info=True)) == serial
    bad = {video.path for video in stream.quarantine}
    assert bad == {f"all/torn{number}.avi" for number in range(2)}
    if on_error == "substitute":
        for step in (40, 61):  # whatever was known before
            resumed = decode_serially(torn, clip, 2, start_step=step, epochs=2, info=True, **how)
            assert digests(resumed) == serial[step:]
