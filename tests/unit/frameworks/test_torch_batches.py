"""The order in which batches are copied to a GPU, and the memory that they go through."""

from collections.abc import Iterator

import pytest

from tests.support.needs import needs_torch
from videoload.errors import StorageError
from videoload.frameworks.torch_batches import Buffers, one_ahead


class Copies:
    """Notes what is done."""

    def __init__(self, batches: int, *, fails: bool = False) -> None:
        self.seen: list[str] = []
        self.read = one_ahead(self._made(batches, fails=fails), self._begin, self._end)

    def _made(self, batches: int, *, fails: bool) -> Iterator[int]:
        yield from range(batches)
        if fails:
            raise StorageError("away")

    def _begin(self, batch: int) -> int:
        self.seen.append(f"begin {batch}")
        return batch

    def _end(self, batch: int) -> int:
        self.seen.append(f"end {batch}")
        return batch


def test_a_copy_has_begun_before_the_batch_before_it_is_handed_over() -> None:
    copies = Copies(3)
    assert next(copies.read) == 0
    assert copies.seen == ["begin 0", "begin 1", "end 0"]
    assert list(copies.read) == [1, 2]
    assert copies.seen[3:] == ["begin 2", "end 1", "end 2"]
    assert list(Copies(0).read) == []
    left = Copies(3)
    next(left.read)
    left.read.close()  # type: ignore[attr-defined]
    assert left.seen == ["begin 0", "begin 1", "end 0"], "nothing more is handed over"


def test_an_error_comes_after_all_batches_before_it() -> None:
    copies = Copies(2, fails=True)
    assert [next(copies.read), next(copies.read)] == [0, 1]
    with pytest.raises(StorageError, match="away"):
        next(copies.read)


@pytest.mark.xdist_group("torch")
@needs_torch
def test_buffers_are_kept_and_grow_with_the_batch() -> None:
    import torch

    buffers = Buffers()
    small, large = torch.arange(6).reshape(2, 3), torch.arange(12).reshape(4, 3)
    labels = torch.arange(4)
    for batch in (small, large, small + 1):  # without a GPU, nothing can be pinned
        assert buffers.fill(0, batch).equal(batch)
        assert buffers.fill(1, labels).equal(labels)
    kept = buffers.fill(0, large)
    assert buffers.fill(0, small).data_ptr() == kept.data_ptr()
    for other in (large.reshape(2, 6), small.reshape(1, 1, 6), large):  # as clips of any length
        filled = buffers.fill(0, other)
        assert filled.equal(other)
        assert filled.data_ptr() == kept.data_ptr()
