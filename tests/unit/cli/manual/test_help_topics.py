"""`gantry help TOPIC` shows the pages of the manual on a terminal."""

import json

import pytest

from cli.gantry.help import TOPICS
from cli.gantry.main import group
from cli.program import exit_code


def told(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert exit_code(group, "gantry", args) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("topic", list(TOPICS))
def test_each_topic_fits_80_columns(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "help", topic).splitlines()

    assert len(lines) > 10
    assert [line for line in lines if len(line) > 80] == []


def test_topics_are_the_pages_of_the_manual(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "help", "errors")

    assert text.startswith(
        "gantry-errors(7): codes of errors, with cause and remedy\n\nDescription:\n  A program says "
    )
    assert "\n  not_found: there is no such thing\n      The job, filter rule or path does not exist" in text


def test_programs_get_a_topic_by_its_sections(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "--output", "json", "help", "opcodes"))

    assert "OP_RUN_COMMAND:\n" in found["opcodes"]
    assert found["summary"] == "opcodes, with their parameters, locks and roles"
