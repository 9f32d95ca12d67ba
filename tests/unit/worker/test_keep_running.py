"""The figures of a host's worker processes, and when something is wrong with them."""

from videoload.worker.keep_running import HANGS_S, UNSERVED_S, State, ailment, families, unready


def counts(
    clips: float, trainers: float = 1, refused: float = 0, away: float = 0
) -> dict[str, float]:
    return {
        "clips": clips, "failures": 1, "decode_seconds": clips / 10, "trainers": trainers,
        "refused": refused, "rejected": away,
    }  # fmt: skip


def told(state: State) -> dict[str, float]:
    found = {}
    for metric in families(state):
        ((labels, value),) = metric.samples
        assert not labels
        assert metric.name.startswith("videoload_worker_")
        found[metric.name.removeprefix("videoload_worker_")] = value
    return found


def test_the_figures_of_all_processes_are_added_up() -> None:
    state = State(0.0, {7: counts(10), 8: counts(30, trainers=2)}, {"clips": 5.0}, 1)
    assert told(state) == {
        "clips_total": 45, "failures_total": 2, "decode_seconds_total": 4, "restarts_total": 1,
        "processes": 2, "trainers": 2, "storage_refused": 0, "rejected": 0,
    }  # fmt: skip


def test_a_supervisor_that_hangs_or_has_no_process_is_an_ailment() -> None:
    one = State(100.0, {7: counts(1)})
    assert ailment(one, 100.0 + HANGS_S) == ""
    assert "11 s" in ailment(one, 111.0)
    assert ailment(State(100.0), 100.0), "there is no process"


def test_a_host_is_ready_if_it_serves_a_trainer_or_none_is_there_and_none_refuses_it() -> None:
    serves, alone, away = ({7: counts(1, trainers=n)} for n in (1, 0, 0))
    away[7]["rejected"] = 1
    for since_s, waits in ((0, True), (UNSERVED_S + 1, False)):
        assert unready(State(100.0, serves, served=100.0 - since_s), 100.0) == ""
        assert bool(unready(State(100.0, alone, served=100.0 - since_s), 100.0)) is waits
        assert unready(State(100.0, away, served=100.0 - since_s), 100.0)
    both = {**serves, 8: counts(1, trainers=0, away=1)}
    assert unready(State(100.0, both, served=100.0), 100.0) == "", "one of two trainers refuses it"
    assert ailment(State(100.0, away), 100.0) == "", "another start of this host would not help"
    assert unready(State(100.0, served=100.0), 100.0), "there is no process"


def test_a_host_whose_storage_refuses_all_its_processes_is_not_ready() -> None:
    counted = {7: counts(1, refused=1), 8: counts(1)}
    assert unready(State(100.0, counted, served=100.0), 100.0) == ""
    counted[8] = counts(1, refused=1)
    assert unready(State(100.0, counted, served=100.0), 100.0)
