"""The words of a command in one line, as summaries show it."""

import shlex

import pytest

from common.errors import InvalidRequest
from common.opcodes.command import joined
from common.opcodes.registry import parse_opcode


@pytest.mark.parametrize(
    "argv",
    [
        ("true",),
        ("/bin/ls", "-l", "--color=auto", "a_b%c@d:e,f+g"),
        ("echo", ""),
        ("echo", "two words"),
        ("echo", "it's"),
        ("echo", "é"),
        ("echo", "a\nb", "$HOME", "*", "~"),
    ],
)
def test_words_are_joined_as_a_shell_would_read_them(argv: tuple[str, ...]) -> None:
    assert joined(argv) == shlex.join(argv)
    assert shlex.split(joined(argv)) == list(argv)


@pytest.mark.parametrize("argv", [["true", 1], ["true", None], "true", {"true": 1}, [["true"]]])
def test_a_word_that_is_no_text_is_refused(argv: object) -> None:
    with pytest.raises(InvalidRequest, match="argv"):
        parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": argv})
