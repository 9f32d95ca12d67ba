"""Numbered images in a folder are one file: in the order of their numbers, and named alike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from videoload.errors import VideoError
from videoload.storage.files import Folder
from videoload.storage.images import ImageFolder, folder_and_pattern, in_order


def folder_of(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def images_at(root: Path, path: str) -> ImageFolder:
    found = Folder(root).resolve(path)
    assert isinstance(found, ImageFolder)
    return found


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        (None, ["10.png", "9.png", "1.png"], ["1.png", "9.png", "10.png"]),
        (None, ["img_00002.jpg", "img_00010.jpg"], ["img_00002.jpg", "img_00010.jpg"]),
        (
            None,
            ["S001_7_depth.png", "S001_11_depth.png"],
            ["S001_7_depth.png", "S001_11_depth.png"],
        ),
        ("x_%05d.jpg", ["x_2.jpg", "y_1.jpg", "x_1.jpg", "a.jpg"], ["x_1.jpg", "x_2.jpg"]),
        ("%d_d16.png", ["2_d16.png", "11_d16.png", "1_d8.png"], ["2_d16.png", "11_d16.png"]),
        (None, [], []),
        ("x_%d.jpg", ["y_1.jpg"], []),
    ],
)
def test_images_come_in_the_order_of_their_numbers(
    pattern: str | None, names: list[str], expected: list[str]
) -> None:
    assert in_order(names, pattern) == in_order(names[::-1], pattern) == expected


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["a_1.jpg", "b_2.jpg"], r"'a_1.jpg' and 'b_2.jpg' are not named alike: .* a_%01d.jpg"),
        (["a_1.jpg", "a_2.png"], r"not named alike"),
        (["a_1.jpg", "cover.jpg"], r"'cover.jpg' has no number: give a pattern like img_%05d.jpg"),
        (["a_1.jpg", "a_01.jpg"], r"'a_01.jpg' and 'a_1.jpg' have the same number"),
    ],
)
def test_images_that_are_no_sequence_are_named(names: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        in_order(names, None)


def test_a_pattern_is_that_of_an_image_with_one_number() -> None:
    assert folder_and_pattern("a/b/x_%05d.jpg") == ("a/b", "x_%05d.jpg")
    assert folder_and_pattern("%d.PNG") == ("", "%d.PNG")
    for path in ("a/b", "a/x_%05d.avi", "a/%d_%d.png", "a%d/b", "a/100%.png"):
        assert folder_and_pattern(path) == (path, None)


def test_a_folder_has_the_bytes_of_its_images_one_after_the_other(tmp_path: Path) -> None:
    folder_of(tmp_path / "s", i10__png="three", i2__png="one", i3__png="two", notes__txt="no")
    file = images_at(tmp_path, "s")
    assert file.names == ["i2.png", "i3.png", "i10.png"]
    opened = file.open()
    whole = b"onetwothree"
    for at in range(13):
        for length in range(13):
            assert opened.pread(length, at) == whole[at : at + length]
    assert (file.size, file.read(1)) == (11, b"two")
    assert images_at(tmp_path, "s/i%d.png").names == file.names


def test_an_image_that_came_or_was_replaced_makes_another_version(tmp_path: Path) -> None:
    folder_of(tmp_path / "s", i1__png="one", i2__png="two")
    storage = Folder(tmp_path)
    first = storage.resolve("s")
    assert storage.resolve("s") is first
    folder_of(tmp_path / "s", i3__png="three")
    second = storage.resolve("s")
    assert second.identity != first.identity
    before = second.identity
    (tmp_path / "s/i1.png").write_text("other")
    storage.begin()
    assert storage.resolve("s").identity != before


def test_copies_of_a_sequence_have_one_fingerprint(tmp_path: Path) -> None:
    for copy, more in (("a", ""), ("b", ""), ("c", "!")):
        folder_of(tmp_path / copy, i1__png="one", i2__png="two" + more)
    prints = [Folder(tmp_path).fingerprint(copy) for copy in "abc"]
    assert prints[0] == prints[1] != prints[2]


def test_images_outside_of_the_root_are_not_read(tmp_path: Path) -> None:
    folder_of(tmp_path / "out", secret__png="secret")
    folder_of(tmp_path / "root/s", i1__png="one")
    folder_of(tmp_path / "root/other", o__png="inside")
    (tmp_path / "root/s/i2.png").symlink_to(tmp_path / "root/other/o.png")
    assert images_at(tmp_path / "root", "s").read(1) == b"inside"
    (tmp_path / "root/s/i3.png").symlink_to(tmp_path / "out/secret.png")
    with pytest.raises(VideoError, match=r"'i3.png' is a link that leads out of the root"):
        Folder(tmp_path / "root").resolve("s")
    (tmp_path / "root/s/i3.png").unlink()
    (tmp_path / "root/s/i3.png").symlink_to("missing.png")
    with pytest.raises(VideoError, match=r"'i3.png' is a link to no file"):
        Folder(tmp_path / "root").resolve("s")
    (tmp_path / "root/linked").symlink_to(tmp_path / "out")
    for path in ("linked", "../out", "linked/secret%d.png", "../out/%d.png"):
        with pytest.raises(VideoError, match="outside of the root"):
            Folder(tmp_path / "root").resolve(path)


def test_a_pipe_among_images_is_not_opened(tmp_path: Path) -> None:
    folder_of(tmp_path / "s", i1__png="one")
    os.mkfifo(tmp_path / "s/i2.png")
    assert images_at(tmp_path, "s").names == ["i1.png"]


def test_a_folder_without_images_is_named(tmp_path: Path) -> None:
    folder_of(tmp_path / "s", notes__txt="no", i1__png="one")
    for path, why in (("s/x%d.png", "nor a folder of images named x%d.png"), ("", "numbered")):
        with pytest.raises(VideoError, match=why):
            Folder(tmp_path).resolve(path)
    with pytest.raises(VideoError, match="No such file or directory"):
        Folder(tmp_path).resolve("none/x%d.png")
    with pytest.raises(VideoError, match="is not a file"):
        Folder(tmp_path).resolve("s/notes.txt/%d.png")
