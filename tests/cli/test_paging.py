"""Long tables on a terminal, of a known height. Source: cli.md 1.3."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.command import argv, environment, run
from tests.cli.fakeluxid import FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
LISTED = ("list", "--no-headers", "-o", "id,status")


@pytest.fixture(autouse=True)
def luxid(start_luxid: Start) -> FakeLuxid:
    return start_luxid(*(FakeJob(each, "success") for each in range(1, 61)))


def on_terminal(root: Path, *words: object, variables: Mapping[str, str], lines: int = 20) -> tuple[int, str]:
    """How `gnt-job` ends, and all that it and its pager print on a terminal of so many lines."""
    leader, follower = os.openpty()
    env = {key: value for key, value in environment().items() if key not in ("PAGER", "LESS")}
    env |= {"TERM": "xterm", "COLUMNS": "80", "LINES": str(lines), "NO_COLOR": "1", **variables}
    command = argv("gnt-job", "--root", root, *words)
    with subprocess.Popen(command, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=env) as process:
        os.close(follower)
        printed = b"".join(iter(lambda: _read(leader), b""))
    os.close(leader)
    return process.returncode, printed.decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:
        # EIO: the last writer has closed it
        return b""


def rows(count: int) -> str:
    return "".join(f"{each:>2}  success\n" for each in range(1, count + 1))


@pytest.mark.parametrize("variables", [{"GANTRY_PAGER": "sed s/^/:/", "PAGER": "false"}, {"PAGER": "sed s/^/:/"}])
def test_a_table_longer_than_the_terminal_goes_through_the_pager(tmp_path: Path, variables: dict[str, str]) -> None:
    told = "".join(f":{line}\n" for line in rows(60).splitlines())

    assert on_terminal(tmp_path, *LISTED, variables=variables) == (0, told)


def test_one_that_fits_goes_through_none(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, *LISTED, lines=61, variables={"PAGER": "false"}) == (0, rows(60))


@pytest.mark.parametrize("variables", [{"PAGER": ""}, {"PAGER": "cat"}, {"GANTRY_PAGER": "", "PAGER": "false"}])
def test_without_a_pager_the_end_says_how_to_see_less(tmp_path: Path, variables: dict[str, str]) -> None:
    hint = "… 60 lines; --limit 20 shows the newest, --since or --where fewer\n"

    assert on_terminal(tmp_path, *LISTED, variables=variables) == (0, rows(60) + hint)
    assert on_terminal(tmp_path, *LISTED, "--no-pager", variables={"PAGER": "false"}) == (0, rows(60))


def test_a_pager_that_cannot_be_started_costs_no_line(tmp_path: Path) -> None:
    code, printed = on_terminal(tmp_path, *LISTED, variables={"PAGER": "no-such-pager 2>/dev/null"})

    assert code == 0
    assert printed == (
        "warning: the pager 'no-such-pager 2>/dev/null' cannot be started; $GANTRY_PAGER names another one, "
        "--no-pager does without\n" + rows(60)
    )


def test_a_pager_that_is_left_early_is_no_error(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, *LISTED, variables={"PAGER": "head -n 1"}) == (0, rows(1))


def test_less_ends_by_itself_where_all_fits_and_keeps_colours(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, *LISTED, variables={"PAGER": "cat >/dev/null; echo $LESS"}) == (0, "FRX\n")
    assert on_terminal(tmp_path, *LISTED, variables={"PAGER": "cat >/dev/null; echo $LESS", "LESS": "M"}) == (0, "M\n")


def test_a_script_gets_everything(tmp_path: Path) -> None:
    ended = run("gnt-job", "--root", tmp_path, *LISTED, env={"PAGER": "false", "LINES": "20"})

    assert (ended.code, ended.out, ended.err) == (0, rows(60), "")
