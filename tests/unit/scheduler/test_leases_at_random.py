"""The scheduler whatever happens, in any order: `Simulation.check` says what must always hold."""

import random

import pytest

from tests.support.simulation import OTHER, OWN, How, SimulatedWorker, Simulation
from tests.support.thorough import either, rest_nightly
from videoload.errors import (
    Fault,
    StorageError,
    TooManyBadVideos,
    TransformError,
    UnreadableError,
    VideoloadError,
)
from videoload.scheduler.files import Files

VIDEOS = 24
HOWS: list[How | Fault] = [
    "sleeps", "crashes", "endless", Fault.VIDEO, Fault.VIDEO, Fault.SHORT, Fault.FUNCTION,
]  # fmt: skip
FOUND: list[int | VideoloadError] = [  # of the trainer's own copy
    OWN, OWN, StorageError("the mount is away"), UnreadableError("x.avi", "EIO"),
]  # fmt: skip


class Play:
    """A simulation in which something happens again and again. What, and when, is drawn."""

    def __init__(self, seed: str) -> None:
        self.draw = draw = random.Random(seed)
        self.names = 0
        self.told: list[object] = []
        self.simulation = simulation = Simulation(
            credit=draw.choice([1, 2, 3]), kill_s=draw.choice([10.0, 30.0]), videos=VIDEOS,
            shuffle=True, max_bad=draw.choice([0.0, 1.0, 1.0, 1.0]),
            on_error=draw.choice(["substitute", "substitute", "skip"]),
        )  # fmt: skip
        simulation.is_checked = True
        if draw.random() < 0.5:
            simulation.bad = {
                video: draw.choice(HOWS)
                for video in draw.sample(range(VIDEOS), draw.randrange(1, 5))
            }
        self.files = draw.random() < 0.4
        self.all_checked = self.files and draw.random() < 0.5  # each worker reads another copy
        self.hosts = draw.choice([1, 2, 3])
        if self.files:
            simulation.lacks = {"host1": set(draw.sample(range(VIDEOS), 3))}
        self.streams = 0
        for _ in range(draw.choice([1, 2])):
            self.a_stream_is_added()
        for _ in range(draw.randrange(1, 5)):
            self.a_worker_joins()
        self.likes = [draw.choice([0, 1, 4]) for _ in EVENTS]  # so that rare ones meet each other
        self.likes[0] = 1

    def some_worker(self) -> SimulatedWorker | None:
        workers = list(self.simulation.workers.values())
        return self.draw.choice(workers) if workers else None

    def step(self) -> None:
        self.keep_going()
        self.simulation.run(self.draw.choice([0.0, 0.02, 0.1, 0.5, 1.0, 3.0]))
        [event] = self.draw.choices(EVENTS, self.likes)
        event(self)
        self.told.append((event.__name__, self.simulation.now, self.simulation.granted))
        self.simulation.check()

    def keep_going(self) -> None:
        """Somebody works, and somebody reads."""
        if len(self.simulation.workers) < 2:
            self.a_worker_joins()
        for reader, consumer in list(self.simulation.consumers.items()):
            if len(consumer.taken) == len(consumer.steps):
                self.simulation.end_reader(reader)
        if not self.simulation.consumers:
            self.a_consumer_starts()

    # What happens

    def a_worker_joins(self) -> None:
        self.names += 1
        local, host = self.draw.random() < 0.5, f"host{self.names % self.hosts}"
        if self.all_checked:
            local, host = False, f"host{1 + self.names % self.hosts}"
        if len(self.simulation.workers) < 5:
            self.simulation.add_worker(
                f"w{self.names}", self.draw.choice([0.01, 0.01, 0.1, 0.5]), local=local,
                away_s=0.0 if local else self.draw.choice([0.0, 0.02, 0.3]), host=host,
                copy=None if local or host == "host0" else host,
            )  # fmt: skip

    def a_worker_ends(self) -> None:
        if worker := self.some_worker():
            died, returns = self.draw.random() < 0.5, self.draw.random() < 0.5
            self.simulation.end_worker(worker.name, died=died, returns=returns)

    def a_worker_is_silent(self) -> None:
        if worker := self.some_worker():
            self.simulation.cut(worker, self.draw.choice([1.0, 3.0, 12.0, 40.0]))

    def a_host_loses_its_power(self) -> None:
        if (worker := self.some_worker()) and not worker.known.local:
            self.simulation.cut(worker, 1e9)

    def a_root_goes_away_or_is_back(self) -> None:
        if worker := self.some_worker():
            self.simulation.away ^= {worker.known.copy}

    def a_storage_is_silent_or_back(self) -> None:
        if self.simulation.storage_works:
            self.simulation.stop_storage()
        else:
            self.simulation.start_storage()

    def the_trainers_own_copy_goes_away_or_is_back(self) -> None:
        found = self.draw.choice(FOUND)
        self.simulation.own = lambda video: found

    def messages_are_lost(self) -> None:
        if worker := self.some_worker():
            worker.loses += self.draw.choice([1, 1, 2])

    def a_worker_lies(self) -> None:
        if (worker := self.some_worker()) and len(self.simulation.lied_about) < 3:
            worker.lies = self.draw.choice([Fault.VIDEO, Fault.UNREAD])

    def a_worker_lacks_code_or_has_it(self) -> None:
        if worker := self.some_worker():
            worker.lacks_code = not worker.lacks_code

    def the_process_sleeps(self) -> None:
        self.simulation.sleep(self.draw.choice([0.7, 1.5, 1000.0]))

    def a_consumer_starts(self) -> None:
        going = [n for n in self.simulation.streams if n not in self.simulation.errors]
        if going and len(self.simulation.consumers) < 4:
            self.names += 1
            first = self.draw.randrange(9)
            self.simulation.read(
                self.names, range(first, first + self.draw.randrange(13)),
                stream=self.draw.choice(going), step_s=self.draw.choice([0.0, 0.1, 1.0]),
            )  # fmt: skip

    def a_consumer_ends(self) -> None:
        if self.simulation.consumers:
            self.simulation.end_reader(self.draw.choice(list(self.simulation.consumers)))

    def a_stream_is_added(self) -> None:
        draw = self.draw
        files = Files(VIDEOS, has_own=True) if self.files else None
        self.simulation.add_stream(
            self.streams, batch=draw.randrange(1, 6), slots=draw.randrange(2, 5),
            ordered=draw.random() < 0.5, files=files, function=draw.choice(["", "", "f"]),
        )  # fmt: skip
        self.streams += 1

    def a_stream_is_dropped_and_another_takes_its_place(self) -> None:
        self.simulation.drop_stream(self.draw.choice(list(self.simulation.streams)))
        self.a_stream_is_added()

    def slots_grow(self) -> None:
        stream = self.draw.choice(list(self.simulation.streams))
        self.simulation.grow(stream, self.draw.choice([1, 2, 8]))

    def nothing(self) -> None:
        pass

    # The end

    def end(self) -> None:
        """From now on nothing else happens: so each consumer gets all its batches."""
        simulation = self.simulation
        simulation.away.clear()
        simulation.own = lambda video: OWN
        simulation.start_storage()
        for worker in simulation.workers.values():
            worker.loses, worker.lies, worker.lacks_code = 0, None, False
        copy = "good" if self.all_checked else None
        simulation.add_worker("good one", 0.01, local=copy is None, host="host0", copy=copy)
        simulation.add_worker("good remote", 0.01, local=False, host="host0", copy=copy)
        simulation.run_until(
            lambda: all(
                len(c.taken) == len(c.steps) or c.stream.id in simulation.errors
                for c in simulation.consumers.values()
            ),
            at_most_s=2000,
        )
        for number, error in simulation.errors.items():
            stream = simulation.streams[number]
            if isinstance(error, TransformError):
                assert stream.function
            else:
                assert isinstance(error, TooManyBadVideos)
                assert len(stream.quarantine.reasons) > 3
        for stream in simulation.streams.values() if self.files else ():
            assert stream.files is not None
            assert OTHER not in map(stream.files.expected, range(VIDEOS))
        simulation.finish()


EVENTS = [
    Play.nothing,
    Play.a_worker_joins,
    Play.a_worker_ends,
    Play.a_worker_is_silent,
    Play.a_host_loses_its_power,
    Play.a_root_goes_away_or_is_back,
    Play.a_storage_is_silent_or_back,
    Play.the_trainers_own_copy_goes_away_or_is_back,
    Play.a_worker_lacks_code_or_has_it,
    Play.messages_are_lost,
    Play.a_worker_lies,
    Play.the_process_sleeps,
    Play.a_consumer_starts,
    Play.a_consumer_ends,
    Play.a_stream_is_dropped_and_another_takes_its_place,
    Play.slots_grow,
]


@pytest.mark.parametrize("seed", rest_nightly(range(40), 5))
def test_whatever_happens_each_consumer_gets_the_right_batches(seed: int) -> None:
    for number in range(20):
        play = Play(f"{seed}.{number}")
        try:
            for _ in range(40):
                play.step()
            play.end()
        except Exception as error:
            error.add_note(f"play {seed}.{number}: {play.told[-3:]}")
            raise


def test_the_same_events_lead_to_the_same_decisions() -> None:
    kept: list[list[object]] = []
    for number in range(either(8, 40)):
        told = []
        for _ in range(2):
            play = Play(f"again {number}")
            kept.append([object() for _ in range(997)])  # other objects lie at other addresses
            for _ in range(40):
                play.step()
            told.append(play.told)
        assert told[0] == told[1]
