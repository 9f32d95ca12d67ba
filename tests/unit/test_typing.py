"""What type checkers see of a batch: mypy reads all of this file, and pytest runs the reference."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import numpy.typing as npt

import videoload as vl
from tests.support.videos import make_avi
from videoload.plan.batches import BatchInfo

Array = npt.NDArray[Any]
Pair = tuple[Array, Any]
Triple = tuple[Array, Any, BatchInfo]


def test_the_reference_gives_pairs_and_with_info_triples(tmp_path: Path) -> None:
    make_avi(tmp_path / "video.avi", frames=4)
    catalog, clip = vl.Catalog(["video.avi"], [0], ["all"], tmp_path), vl.ClipSpec(frames=2)
    some = bool(catalog.root)
    pairs = assert_type(vl.decode_serially(catalog, clip, 1), Iterator[Pair])
    for clips, labels in pairs:
        assert assert_type(clips, Array).dtype == np.uint8
        assert labels.dtype == np.int64
    assert_type(vl.decode_serially(catalog, clip, 1, info=False), Iterator[Pair])
    triples = assert_type(vl.decode_serially(catalog, clip, 1, info=True), Iterator[Triple])
    for _, _, info in triples:
        assert isinstance(assert_type(info, BatchInfo), BatchInfo)
    assert [len(batch) for batch in vl.decode_serially(catalog, clip, 1, info=some)] == [3]


if TYPE_CHECKING:

    def a_stream_gives_what_its_spec_says(
        client: vl.Client, catalog: vl.Catalog, clip: vl.ClipSpec, some: bool
    ) -> None:
        stream = assert_type(client.stream(catalog, clip, 1), vl.Stream[Array])
        assert_type(iter(stream), Iterator[Pair])
        assert_type(stream.batches(), Iterator[Pair])
        assert_type(stream.batches(3, epochs=2, info=False), Iterator[Pair])
        assert_type(stream.batches(3, epochs=2, info=True), Iterator[Triple])
        assert_type(stream.batches(info=some), Iterator[Pair | Triple])
        for clips, _ in client.stream(catalog, {"rgb": clip, "depth": clip}, 1):
            assert_type(clips["rgb"], Any)
            clips.mean()  # type: ignore[attr-defined]

    def a_stream_has_no_type_to_be_told(stream: vl.Stream) -> None:
        for clips, _ in vl.torch.batches(stream):
            assert_type(clips, Any)

    def the_arguments_of_a_user_are_checked(
        client: vl.Client, catalog: vl.Catalog, clip: vl.ClipSpec
    ) -> None:
        client.stream(catalog, clip, 1, slots=4, shuffle=True, on_error="skip", balance=None)
        client.stream(catalog, clip, 1, shufle=True)  # type: ignore[call-overload]
        client.stream(catalog, clip, 1, on_error="pass")  # type: ignore[call-overload]
        client.stream(["a.avi"], clip, 1)  # type: ignore[call-overload]
        vl.decode_serially(catalog, clip, 1, sed=1)  # type: ignore[call-overload]
        vl.Catalog.from_folder(["ucf101"])  # type: ignore[arg-type]
        vl.Catalog.from_table("t.csv", lable="behaviour")  # type: ignore[call-arg]
        vl.ClipSpec(frames=16, size=112, samplig="random")  # type: ignore[call-arg]
