"""What type checkers see of a batch: mypy reads all of this file, and pytest runs the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import numpy as np
import numpy.typing as npt

import videoload as vl
from tests.support.videos import make_avi

Pair = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
Triple = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], vl.BatchInfo]


def test_the_reference_gives_pairs_and_with_info_triples(tmp_path: Path) -> None:
    make_avi(tmp_path / "video.avi", frames=4)
    catalog, clip = vl.Catalog(["video.avi"], [0], ["all"], tmp_path), vl.ClipSpec(frames=2)
    some = bool(catalog.root)
    pairs = assert_type(vl.decode_serially(catalog, clip, 1), Iterator[Pair])
    for clips, labels in pairs:
        assert assert_type(clips, npt.NDArray[np.uint8]).dtype == np.uint8
        assert assert_type(labels, npt.NDArray[np.int64]).dtype == np.int64
    assert_type(vl.decode_serially(catalog, clip, 1, info=False), Iterator[Pair])
    triples = assert_type(vl.decode_serially(catalog, clip, 1, info=True), Iterator[Triple])
    for _, _, info in triples:
        assert isinstance(assert_type(info, vl.BatchInfo), vl.BatchInfo)
    either = assert_type(vl.decode_serially(catalog, clip, 1, info=some), Iterator[Pair | Triple])
    assert [len(batch) for batch in either] == [3]


if TYPE_CHECKING:

    def a_stream_gives_the_same(stream: vl.Stream, some: bool) -> None:
        assert_type(iter(stream), Iterator[Pair])
        assert_type(stream.batches(), Iterator[Pair])
        assert_type(stream.batches(3, epochs=2, info=False), Iterator[Pair])
        assert_type(stream.batches(3, epochs=2, info=True), Iterator[Triple])
        assert_type(stream.batches(info=some), Iterator[Pair | Triple])

    def the_options_of_a_stream_are_checked(
        client: vl.Client, catalog: vl.Catalog, clip: vl.ClipSpec
    ) -> None:
        client.stream(catalog, clip, 1, slots=4, shuffle=True, on_error="skip", balance=None)
        client.stream(catalog, clip, 1, shufle=True)  # type: ignore[call-arg]
        client.stream(catalog, clip, 1, on_error="pass")  # type: ignore[arg-type]
        vl.decode_serially(catalog, clip, 1, sed=1)  # type: ignore[call-overload]
