"""Each verb has an example, and what the examples type is understood."""

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import click
import pytest

from cli.commands import CommandGroup
from cli.completion import PROGRAMS
from cli.manual.page import Code, ManualPage
from cli.manual.programs import folded, places
from cli.manual.queries import filters_page, query_page
from common.words.filters.filtertext import parse_filter
from common.words.filters.jobfilter import job_filter, past_filter
from common.words.filters.rulefilter import rule_predicates

NOW = 1_790_000_000.0
# commands of a line of the shell
_BETWEEN = ("|", "||", "&&", ";", "&")
READERS = {
    "gnt-job list": lambda text: job_filter(text, NOW, None),
    "gnt-job cancel": lambda text: job_filter(text, NOW, None),
    "gnt-job history": lambda text: past_filter(text, NOW, None),
    "gnt-filter pause": rule_predicates,
    "gnt-node list": parse_filter,
}


def commands_in(line: str) -> Iterator[list[str]]:
    """The commands of ours in a line, without redirections."""
    # what the shell puts in is a number here
    lexer = shlex.shlex(re.sub(r"\$\(.*?\)", "1", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if word in _BETWEEN or word.startswith((">", "<")):
            if command and command[0] in PROGRAMS:
                yield command
            command = []
        else:
            command.append(word)


def parse(command: click.Command, name: str, args: Sequence[str], parent: click.Context | None = None) -> click.Command:
    """Read a command line, and carry out nothing; return the command that it is for.

    Raises: click.ClickException: it is not understood.
    """
    with command.make_context(name, list(args), parent) as context:
        rest = [*context._protected_args, *context.args]
        if isinstance(command, CommandGroup) and rest:
            verb, chosen, more = command.resolve_command(context, rest)
            assert verb is not None
            assert chosen is not None
            return parse(chosen, verb, more, context)
    return command


def program(name: str) -> click.Command:
    group = import_module(f"cli.{name.removeprefix('gnt-')}.main").group
    assert isinstance(group, click.Command)
    return group


def examples_on(page: ManualPage) -> list[str]:
    blocks = (block for section in page.sections if section.title == "Examples" for block in section.blocks)
    (text,) = (block.text for block in blocks if isinstance(block, Code))
    return re.sub(r"\\\n\s*", "", text).splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the files that examples read."""
    for name in ("list.txt", "tags.txt"):
        (tmp_path / name).write_text("a\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_verb_has_an_example_and_all_examples_are_understood(folder: Path) -> None:
    without = []
    for place in places():
        reached = []
        for name, *args in (each for line in getattr(place.command, "examples", ()) for each in commands_in(line)):
            try:
                reached.append(parse(program(name), name, args))
            except click.ClickException as error:
                pytest.fail(f"{name} {shlex.join(args)}: {error.format_message()}")
        is_shown = (
            reached if isinstance(place.command, CommandGroup) else [each for each in reached if each is place.command]
        )
        without += [] if is_shown else [place.name]

    assert without == []


def test_every_filter_of_the_page_is_understood() -> None:
    lines = examples_on(filters_page())

    for line in lines:
        name, verb, *_, text = shlex.split(line)
        assert READERS[f"{name} {verb}"](text)
    assert len(lines) >= 5


def test_the_examples_of_the_query_language_are_understood() -> None:
    text = "\n".join(examples_on(query_page())).replace("\n    ", " ")

    for name, *args in (command for line in text.splitlines() for command in commands_in(line)):
        parse(program(name), name, args)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gnt-job list", "gnt-job list"),
        ("gnt-job run -- a 'b c' d  # why", "# why\ngnt-job run -- a \\\n    'b c' d"),
        ("gnt-job run --env 'A=long words' -- b", "gnt-job run \\\n    --env \\\n    'A=long words' \\\n    -- b"),
    ],
)
def test_a_long_command_is_folded_between_words_only(line: str, expected: str) -> None:
    assert folded(line, 18) == expected
