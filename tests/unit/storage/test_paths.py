"""The path of a row says which files it has, in their order."""

from hypothesis import given
from hypothesis import strategies as st

from videoload.errors import named
from videoload.storage.paths import files_of, fingerprint_of, joined, pieces_of, with_offsets

names = st.text("ab. 0", min_size=1).filter(lambda name: name.strip(".") != "")
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(st.lists(paths, min_size=1, max_size=5))
def test_pieces_come_back(pieces: list[str]) -> None:
    assert [*pieces_of(joined(pieces))] == pieces


@given(paths, st.lists(paths, min_size=1, max_size=5))
def test_a_folder_before_the_path_of_a_recording_is_before_each_piece(
    way: str, pieces: list[str]
) -> None:
    assert [*pieces_of(f"{way}/{joined(pieces)}")] == [f"{way}/{piece}" for piece in pieces]


def test_all_files_of_a_row() -> None:
    path = with_offsets("a/0.avi // 1.avi // 2.avi\nb.avi", [0.0, 0.5])
    assert files_of(path) == ["a/0.avi", "a/1.avi", "a/2.avi", "b.avi"]
    assert named(path) == "a/0.avi // ... // 2.avi (3 pieces) + b.avi (offsets 0.0,0.5 s)"


def test_a_fingerprint_is_of_all_pieces() -> None:
    prints = {"a/0.avi": 3, "a/1.avi": 5}
    both = fingerprint_of("a/0.avi // 1.avi", prints.__getitem__)
    assert fingerprint_of("a/0.avi", prints.__getitem__) == 3
    assert both not in (3, 5)
    assert fingerprint_of("a/1.avi // 0.avi", prints.__getitem__) != both
