"""The log on stderr: plain lines, lines with time and level, and JSON; a flood fills none."""

import json
import logging
import re
import threading
from collections.abc import Iterator

import pytest

from videoload.logs import Log, LogFormat, RateLimitedLog, log_to_stderr


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger, whose handlers are put back."""
    found = logging.getLogger()
    handlers, level = found.handlers[:], found.level
    yield found
    found.handlers[:] = handlers
    found.setLevel(level)


@pytest.mark.parametrize(
    ("log_format", "before"),
    [("", ""), ("text", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING ")],
)
def test_a_record_is_one_line_without_control_characters(
    log_format: LogFormat, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr("worker 7", log_format)
    logging.getLogger("videoload.any").warning("file %s is bad", "a\x1b[2Jb")
    logging.getLogger("videoload.any").info("nobody asked for this")
    line = rf"{before}worker 7: file a\\x1b\[2Jb is bad\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("worker 7", "json", logging.INFO)
    log = logging.getLogger("videoload.any")
    log.info("joined\n%s", "é")
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("it broke")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.keys() == {"time", "level", "process", "pid", "message"}
    assert (first["level"], first["process"], first["message"]) == ("INFO", "worker 7", "joined\né")
    assert second["traceback"].endswith("ValueError: x")


def test_warnings_are_logged_once_a_second_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warnings = RateLimitedLog(Log("videoload.test"))
    for now in (0.0, 0.1, 0.2, 0.9):
        warnings.add(f"noise at {now}", now)
    warnings.tell(0.95)
    assert caplog.messages == ["noise at 0.0"]
    warnings.tell(1.0)
    warnings.tell(5.0)
    warnings.add("noise at 6", 6.0)
    _, last, alone = caplog.messages
    assert re.fullmatch(r"noise at 0\.9 \(.*2.*\)", last)
    assert alone == "noise at 6"


def test_the_same_warning_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RateLimitedLog(Log("videoload.test"))
    for now in range(0, 121, 5):  # two workers that are refused again and again
        warnings.add("a is refused", now)
        warnings.add("b is refused", now + 2)
    lines = [line.partition(" (")[0] for line in caplog.messages]
    assert lines == ["a is refused", "b is refused"] * 3


def test_a_handler_that_raises_costs_a_line_and_no_thread(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit(f"the disk is full: {record.funcName}")

    def speak() -> None:
        for say in (log.info, log.warning, log.error, log.exception):
            say("a line %d", 1)
        said.append(True)

    log, said = Log("videoload.test"), list[bool]()
    root.addHandler(Full())
    thread = threading.Thread(target=speak)
    thread.start()
    thread.join()
    assert said
    assert "speak" in capsys.readouterr().err
