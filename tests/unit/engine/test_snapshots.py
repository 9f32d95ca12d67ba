"""What people see of a client: short, and each sample by its files."""

from videoload.engine.snapshots import shortened
from videoload.engine.stats import ClientRecord, StreamRecord, StreamStats, Totals, WorkerStats
from videoload.errors import BadVideo

SAMPLE = "top/a.avi\nside/a.avi\n/0.0,0.2"
SHOWN = "top/a.avi + side/a.avi (offsets 0.0,0.2 s)"


def test_of_many_bad_rows_their_number_is_shown() -> None:
    bad = tuple(range(1000))
    stats = StreamStats(
        9, 72, 9.5, 0.25, 0, (), (BadVideo("a.mp4", "damaged"),), "Slow.", bad_rows=bad
    )
    assert "1000 rows" in str(stats)
    stream = StreamRecord(
        0, "clips", 5, 10, 1, 2, 4, 1, stats, Totals(9, 72, 1.0, 0.1), bad_rows=len(bad)
    )
    [shown] = shortened(ClientRecord("gpu:1", (), (stream,))).streams
    assert shown.bad_rows == 1000
    assert len(shown.stats.bad_rows) < 10


def test_a_sample_of_several_files_is_shown_by_their_names() -> None:
    stats = StreamStats(9, 72, 9.5, 0.25, 0, (), (BadVideo(SAMPLE, "damaged"),), "Slow.")
    stream = StreamRecord(
        0, "clips", 5, 10, 1, 2, 4, 1, stats, Totals(9, 72, 1.0, 0.1), 1, (SAMPLE,)
    )
    record = shortened(
        ClientRecord("gpu:1", (WorkerStats("h:1", "h", 1, 9, 9.5, file=SAMPLE),), (stream,))
    )
    assert record.workers[0].file == SHOWN
    [shown] = record.streams
    assert shown.changed_files == (SHOWN,)
    assert [bad.path for bad in shown.stats.bad_videos] == [SHOWN]
