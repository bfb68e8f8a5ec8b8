"""What a terminal would obey is made visible. Issue 9, escapes."""

import io
import json
import sys

import pytest

from cli.outputscreen import OutputScreen
from cli.screen import remark, say
from common.printable import defused, json_text
from common.words.logs import JobLogLine, message_text

EVIL = "\x1b]0;owned\x07 \x9b31m \u202egnp.exe \u2066 a\tb"
SHOWN = "\\x1b]0;owned\\x07 \\x9b31m \\u202egnp.exe \\u2066 a\tb"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_words_are_defused_wherever_they_go(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    remark(f"{EVIL}\nnext")

    assert capsys.readouterr() == (f"{SHOWN}\n", f"{SHOWN}\nnext\n")


def test_what_is_harmless_stays() -> None:
    # a family of emoji is joined by a character without a width
    text = "größe\t日本 \U0001f468\u200d\U0001f469 \x1fcell\n"

    assert defused(text) == text


def test_json_has_no_such_character_and_means_the_same() -> None:
    text = json_text([EVIL, "größe"])

    assert json.loads(text) == [EVIL, "größe"]
    assert "größe" in text
    assert not set(text) & set("\x1b\x07\x9b\u202e\u2066")


def test_a_log_entry_of_another_kind_is_such_json() -> None:
    assert message_text(JobLogLine(1, 0.0, "special", [EVIL])) == json_text(["special", [EVIL]])


@pytest.mark.parametrize(("is_raw", "shown"), [(False, SHOWN), (True, EVIL)])
def test_output_on_a_terminal_is_defused_unless_it_is_wanted_raw(
    is_raw: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    screen = OutputScreen(is_raw=is_raw)

    screen.write(EVIL)
    screen.write(EVIL, is_error=True)

    assert (out.getvalue(), err.getvalue()) == (shown, shown)


def test_output_into_a_pipe_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    OutputScreen(is_raw=False).write(EVIL + "\r")

    assert capsys.readouterr().out == EVIL + "\r"


def test_a_return_begins_a_line_and_never_overwrites_one(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    screen = OutputScreen(is_raw=False)

    for piece in ("10 %\r20 %\r", "\nend\r", "over\n"):
        screen.write(piece)

    assert out.getvalue() == "10 %\n20 %\nend\nover\n"
