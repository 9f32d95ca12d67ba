"""The screen of ``videoload top`` on terminals of any size."""

import io
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.console import Console

from videoload.engine.stats import (
    ClientRecord,
    SlowFile,
    StreamRecord,
    StreamStats,
    Totals,
    WorkerStats,
)
from videoload.errors import BadVideo, TransportError
from videoload.tools.top import run, screen


@dataclass
class Shown:
    """What a screen of this size shows."""

    snapshot: ClientRecord
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


def snapshot(
    workers: int = 3, streams: int = 1, more: int = 0, batch: int = 213, readers: int = 1,
    frame_store_hit_ratio: float = 0.0,
) -> ClientRecord:  # fmt: skip
    listed = [
        WorkerStats(
            f"decoder{n}.example.org:{n}", f"decoder{n}.example.org", n, 4000 + n, 87.6, 0.91, 0.04,
            ("decoding", "idle", "silent")[n % 3], "is not a video" if n == 1 else "",
        )
        for n in range(workers)
    ]  # fmt: skip
    stats = StreamStats(
        4000, 32000, 251.0, 0.41, 0, (), (BadVideo("Bowling/[bold].avi", "has no video"),),
        "Decoding is too slow. The trainer waits 41% of the time. Add about 3 workers like these.",
        slowest_files=(SlowFile("Archery/v_Archery_g01_c01.avi", 7, 0.312),),
        frame_store_hit_ratio=frame_store_hit_ratio,
    )  # fmt: skip
    return ClientRecord(
        "gpu1:4711",
        tuple(listed),
        tuple(
            StreamRecord(
                n, "9537 videos, clips (16, 112, 112, 3)", batch, 100, readers, 3, 8, 1, stats,
                Totals(4000, 32000, 1.0, 0.5), bad_rows=7,
            )
            for n in range(streams)
        ),
        more,
    )  # fmt: skip


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_the_main_figures_are_shown(width: int) -> None:
    shown = Shown(snapshot(), width)
    assert max(map(len, shown.lines)) <= width
    for text in ("trainer gpu1:4711", "epoch 3, batch 14 of 100", "queue 3 of 8", "waits 41%",
                 "decoding", "idle", "silent",
                 "91%", "1 bad (7 rows)"):  # fmt: skip
        assert text in shown.words, width


@pytest.mark.parametrize(
    ("shown", "there", "absent"),
    [
        (Shown(snapshot(), 120), ["last error", "is not a video", "4001"], ["frame store"]),
        (Shown(snapshot(), 60), [], ["last error", "is not a video", "4001"]),
        # Names are no markup.
        (Shown(snapshot(), 120), ["312 Archery/v_Archery_g01_c01.avi", "Bowling/[bold].avi"], []),
        (Shown(snapshot(workers=50, more=7), 100, 30), ["and 43 more"], []),
        (Shown(ClientRecord("gpu1:1", (), ()), 80), ["trainer gpu1:1"], []),
        (Shown(snapshot(batch=-1), 80), [], ["batch 0", "batch -1"]),
        (Shown(snapshot(frame_store_hit_ratio=0.75), 100), ["75%"], []),
    ],
)
def test_what_is_known_is_shown_where_there_is_room(
    shown: Shown, there: list[str], absent: list[str]
) -> None:
    assert all(text in shown.words for text in there)
    assert not any(text in shown.words for text in absent)
    assert len(shown.lines) <= shown.height


def test_the_slowest_files_of_all_streams_stand_first() -> None:
    found = snapshot(streams=2)
    first, second = (
        replace(stream, stats=replace(stream.stats, slowest_files=files))
        for stream, files in zip(
            found.streams,
            ((SlowFile("b", 1, 0.2), SlowFile("d", 1, 0.05)),
             (SlowFile("a", 1, 0.3), SlowFile("c", 1, 0.1))),
            strict=True,
        )
    )  # fmt: skip
    assert "300 a 200 b 100 c 50 d" in Shown(replace(found, streams=(first, second)), 120).words


def test_control_characters_of_names_are_escaped() -> None:
    found = snapshot(workers=2)
    bad = replace(found.workers[1], name="host\n\x9b31m:2", last_error="\x07reason")
    (stream,) = found.streams
    stats = replace(stream.stats, bad_videos=(BadVideo("a\x1b]0;title\x07.avi", "x"),))
    found = replace(
        found, trainer="gpu\x1b[2J:1", workers=(bad,), streams=(replace(stream, stats=stats),)
    )
    shown = "\n".join(Shown(found, 200).lines)
    assert not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown if letter != "\n"
    )
    for text in (r"gpu\x1b[2J:1", r"host\n\x9b31m:2", r"\x07reason", r"a\x1b]0;title\x07.avi"):
        assert text in shown


def test_an_answer_without_an_end_is_broken_off() -> None:
    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"\0" * (1 << 20))

        def log_message(self, *told: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with pytest.raises(TransportError, match="MB"):
        run(f"http://127.0.0.1:{server.server_port}", every_s=1.0, json=True)
    server.shutdown()
    thread.join()
    server.server_close()
