"""The screen of ``videoload top`` on terminals of any size."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass

import msgspec
import pytest
from rich.console import Console

from videoload.commands.top import pressed_q, screen
from videoload.transport.messages import FileLine, Snapshot, StreamLine, WorkerLine


@dataclass
class Shown:
    """What a screen of this size shows."""

    snapshot: Snapshot
    width: int
    height: int = 1000

    @property
    def lines(self) -> list[str]:
        console = Console(file=io.StringIO(), width=self.width, emoji=False)
        with console.capture() as capture:
            console.print(screen(self.snapshot, self.width, self.height))
        return capture.get().splitlines()

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.lines).split())


def snapshot(workers: int = 3, streams: int = 1, more: int = 0, batch: int = 213) -> Snapshot:
    slow = [FileLine("Archery/v_Archery_g01_c01.avi", 0.312)]
    bad = [FileLine("Bowling/[bold].avi", reason="has no video stream")]
    return Snapshot(
        "gpu1:4711",
        [
            WorkerLine(
                f"decoder{n}.example.org:{n}", ("decoding", "idle", "silent")[n % 3], 4000 + n,
                87.6, 0.91, 0.04, "is not a video" if n == 1 else "",
            )
            for n in range(workers)
        ],
        [
            StreamLine(
                n, "9537 videos, clips (16, 112, 112, 3)", batch, 100, 1, 3, 8, 251.0, 0.41,
                "Decoding is too slow. The trainer waits 41% of the time. Add about 3 workers like "
                "these.", 6, 1, slow, bad,
            )
            for n in range(streams)
        ],
        more,
    )  # fmt: skip


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_the_main_figures_are_shown(width: int) -> None:
    shown = Shown(snapshot(), width)
    assert max(map(len, shown.lines)) <= width
    for text in ("trainer gpu1:4711", "epoch 3, batch 14 of 100", "queue 3 of 8", "waits 41%",
                 "Add about 3 workers like these.", "decoding", "idle", "silent",
                 "91%", "1 bad"):  # fmt: skip
        assert text in shown.words, width


def test_a_wide_terminal_shows_more_of_each_worker() -> None:
    wide, narrow = Shown(snapshot(), 120).words, Shown(snapshot(), 60).words
    for text in ("last error", "is not a video", "4001"):
        assert (text in wide, text in narrow) == (True, False)


def test_control_characters_of_names_are_escaped() -> None:
    found = snapshot(workers=2)
    found.trainer = "gpu\x1b[2J:1"
    found.workers[1].name = "host\n\x9b31m:2"
    found.workers[1].last_error = "\x07reason"
    found.streams[0].quarantine[0].path = "a\x1b]0;title\x07.avi"
    shown = "\n".join(Shown(found, 200).lines)
    assert not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown if letter != "\n"
    )
    for text in (r"gpu\x1b[2J:1", r"host\n\x9b31m:2", r"\x07reason", r"a\x1b]0;title\x07.avi"):
        assert text in shown


def test_names_are_not_parsed_as_markup() -> None:
    words = Shown(snapshot(), 120).words
    assert "312 Archery/v_Archery_g01_c01.avi" in words
    assert "Bowling/[bold].avi has no video stream" in words


def test_workers_that_do_not_fit_are_counted() -> None:
    lines = Shown(snapshot(workers=50, more=7), 100, 30).lines
    assert "and 43 more" in lines
    assert len(lines) <= 30


def test_a_stream_that_has_not_begun_says_so() -> None:
    empty = Shown(Snapshot("gpu1:1", [], []), 80)
    assert "trainer gpu1:1" in empty.words
    assert "not begun" in Shown(snapshot(batch=-1), 80).words
    one = snapshot()
    one.streams[0].readers = 0
    assert "nobody reads" in Shown(one, 80).words


def test_the_share_from_the_frame_store_is_shown_if_there_is_any() -> None:
    plain = snapshot()
    assert "frame store" not in Shown(plain, 100).words
    kept = msgspec.structs.replace(plain.streams[0], kept_share=0.75)
    of_kept = msgspec.structs.replace(plain, streams=[kept])
    assert "75% from the frame store" in Shown(of_kept, 100).words


def test_q_ends_it_and_other_keys_do_not() -> None:
    keyboard, terminal = os.pipe()
    try:
        assert not pressed_q(keyboard, 0)
        os.write(terminal, b"x")
        assert not pressed_q(keyboard, 0)
        os.write(terminal, b"xq")
        assert pressed_q(keyboard, 10)
    finally:
        os.close(terminal)
    assert pressed_q(keyboard, 10), "the terminal is closed"
    os.close(keyboard)
