"""What the log of a daemon says on its last failure. Source: `common.system.running`."""

from common.system.log import format_value
from common.system.running import failure_in


def line(event: str) -> str:
    return f"2026-03-01T12:00:00.412Z rapid info {event}\n"


def failed(reason: str) -> str:
    return line(f"daemon.failed reason={format_value(reason)}")


def test_the_last_failure_is_told_as_it_was_written() -> None:
    for reason in ("gone", "port 'a' taken; see \"b\\c\" = d", "a=b"):
        assert failure_in(failed("other reason") + line("descriptors.allowed count=9") + failed(reason)) == reason


def test_a_daemon_that_was_ready_since_has_no_failure() -> None:
    assert failure_in("") is None
    assert failure_in(failed("gone for now") + line("daemon.ready") + line("daemon.stopped")) is None


def test_words_of_others_in_a_log_are_no_failure() -> None:
    assert failure_in(line('call.refused path="x daemon.failed reason=y z"')) is None
