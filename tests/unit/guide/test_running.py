"""A page in a real room: what is as told, what differs, and what never ends."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guide import running
from tests.guide.__main__ import main
from tests.guide.environments import ENVIRONMENTS, Environment, why_no_rooms
from tests.guide.page import Page, read_page
from tests.guide.running import run_page


@pytest.fixture
def machine() -> Iterator[Environment]:
    if os.geteuid() or (reason := why_no_rooms()) is not None:
        pytest.skip("only root can make rooms" if os.geteuid() else f"no rooms here: {reason}")
    with ENVIRONMENTS["machine"]() as environment:
        yield environment


def page(folder: Path, *lines: str) -> Page:
    path = folder / "page.md"
    path.write_text("\n".join(["# A page", "", "```console", *lines, "```", ""]))
    return read_page(path)


def test_a_look_is_repeated_until_it_shows_what_the_page_says(machine: Environment, tmp_path: Path) -> None:
    told = page(
        tmp_path, "$ (sleep 0.5; echo done >news) &", "$ cat news", "done", "$ whoami; hostname", "jane", "node1"
    )

    result = run_page(told, machine)

    assert result.is_as_told
    assert [command.text for command, _ in result.times][1:] == ["cat news", "whoami; hostname"]


def test_a_command_that_prints_something_else_makes_the_page_differ(machine: Environment, tmp_path: Path) -> None:
    result = run_page(page(tmp_path, "$ echo one", "two", "$ false", "$ echo three", "three"), machine)

    assert not result.is_as_told
    assert [difference.command.text for difference in result.differences] == ["echo one", "false"]
    assert "  -two\n  +one" in result.told()
    assert "exit code 1, the page says 0" in result.told()


def test_a_page_that_does_not_end_tells_what_it_waited_for(
    machine: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PAGE_S", 1.0)
    told = page(tmp_path, "$ echo one", "one", "$ echo begun; sleep 600", "begun", "$ echo never")

    result = run_page(told, machine)

    assert not result.is_as_told
    assert result.told().startswith(f"{told.path}:6: $ echo begun; sleep 600\n  it has not ended after ")
    assert result.told().endswith("it printed:\n  begun")


def test_a_look_in_vain_ends_with_the_page(
    machine: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PAGE_S", 1.0)

    told = page(tmp_path, "$ ls /nothing", "here", "$ echo never")

    result = run_page(told, machine)

    assert result.halt is not None
    assert result.halt.startswith(f"{told.path}:4: $ ls /nothing\n  ")
    assert "echo never" not in [command.text for command, _ in result.times]


def test_a_machine_that_can_make_no_rooms_is_told_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert main(["plans"]) == 0
    assert capsys.readouterr().out == "the commands of the guide are left out: only root can make their rooms\n"
