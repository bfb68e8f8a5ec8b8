"""Log lines have one shape, stay one line, and cost nothing when they are not wanted."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from common.system.log import format_value, get_log, reopen_log, set_up_logging, shared_fields

LOG = get_log("daemons.test")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "luxi-daemon.log"
    set_up_logging("luxid", path=path)
    return path


def test_a_line_is_time_program_level_event_and_fields(path: Path) -> None:
    LOG.info("job.started", job=27491, pid=311, waited_s=0.4)

    time, rest = path.read_text().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == "luxid info job.started job=27491 pid=311 waited_s=0.4\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (0.1 + 0.2, "0.3"),
        (1e6, "1000000"),
        (2.5e-5, "0.000025"),
        (True, "true"),
        (None, "-"),
        ("node/n1", "node/n1"),
        ("café", "café"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "no"', '"say \\"no\\""'),
        ("a=b", '"a=b"'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nbreak\x1b[0m", '"line\\nbreak\\x1b[0m"'),
        (ValueError("it broke"), '"it broke"'),
    ],
)
def test_a_value_is_one_word_or_quoted_and_never_breaks_the_line(value: object, text: str) -> None:
    assert format_value(value) == text


def test_fields_may_be_called_like_anything(path: Path) -> None:
    LOG.info("odd", self=1, event=2, name=3, msg=4, args=5)

    assert path.read_text().endswith("luxid info odd self=1 event=2 name=3 msg=4 args=5\n")


def test_a_traceback_follows_indented(path: Path) -> None:
    try:
        raise ValueError("first\nsecond\x1b[2J")
    except ValueError:
        LOG.exception("request.failed", method="QueryJobs")

    lines = path.read_text().splitlines()
    assert lines[0].endswith("luxid error request.failed method=QueryJobs")
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-2:] == ["  ValueError: first", "  second\\x1b[2J"]
    assert all(line.startswith("  ") for line in lines[1:])


def test_debug_is_silent_unless_asked_for_and_does_not_format(path: Path) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted for nothing")

    LOG.debug("tick", value=Costly())
    assert path.read_text() == ""

    set_up_logging("luxid", path=path, debug=True)
    LOG.debug("tick", value=1)
    assert path.read_text().endswith("luxid debug tick value=1\n")


def test_libraries_log_in_the_same_shape_on_one_line(path: Path) -> None:
    logging.getLogger("trio").warning("accept failed: %s\nagain", "EMFILE")

    assert path.read_text().endswith("luxid warning accept failed: EMFILE\\nagain\n")


def test_a_second_set_up_replaces_the_first(path: Path, tmp_path: Path) -> None:
    set_up_logging("job", path=tmp_path / "jobs.log")
    LOG.info("job.running")

    assert path.read_text() == ""
    assert (tmp_path / "jobs.log").read_text().endswith("job info job.running\n")


def test_after_reopening_lines_go_to_the_new_file(path: Path) -> None:
    LOG.info("before")
    moved = path.rename(path.with_suffix(".1"))
    LOG.info("between")

    reopen_log()
    LOG.info("after")

    assert [line.split()[-1] for line in moved.read_text().splitlines()] == ["before", "between"]
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["after"]


def test_lines_in_a_context_share_fields_and_others_do_not(path: Path) -> None:
    with shared_fields(request="r-1"):
        with shared_fields(part=2):
            LOG.info("inner", job=7)
        LOG.info("outer")
    LOG.info("after")

    lines = [line.partition(" luxid info ")[2] for line in path.read_text().splitlines()]
    assert lines == ["inner job=7 request=r-1 part=2", "outer request=r-1", "after"]


@pytest.mark.trio
async def test_tasks_that_are_begun_in_a_context_have_its_fields_for_themselves(path: Path) -> None:
    async def log_as(name: str) -> None:
        with shared_fields(request=name):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log_once)

    async def log_once() -> None:
        await trio.testing.wait_all_tasks_blocked()
        LOG.info("seen")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_as, "one")
        nursery.start_soon(log_as, "two")
    LOG.info("after")

    endings = [line.split()[-1] for line in path.read_text().splitlines()]
    assert (set(endings[:2]), endings[2]) == ({"request=one", "request=two"}, "after")


def test_if_reopening_fails_the_old_file_stays_in_use(path: Path) -> None:
    moved = path.rename(path.with_suffix(".1"))
    path.mkdir()

    reopen_log()
    LOG.info("after")

    lines = moved.read_text().splitlines()
    assert "log.not_reopened" in lines[0]
    assert lines[1].endswith("after")


def test_without_a_path_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("gantry", path=None)
    LOG.warning("slow")

    assert capsys.readouterr().err.endswith("gantry warning slow\n")


def test_text_that_is_no_unicode_does_not_hurt(path: Path) -> None:
    root = logging.getLogger()
    # the test runner's own handlers would put the line into a report, which cannot hold it
    root.handlers[:] = [handler for handler in root.handlers if not type(handler).__module__.startswith("_pytest")]

    LOG.info("odd\udcff", name="\udcff")

    assert path.read_text().endswith('luxid info odd\\udcff name="\\udcff"\n')
