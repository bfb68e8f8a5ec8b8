"""Pages as steps, and the guide's own pages: each block has a runner."""

from pathlib import Path

import pytest

from tests.guide.__main__ import PAGES, check_environments
from tests.guide.page import Command, File, Prompt, WrongPage, read_page


def _steps(folder: Path, text: str) -> tuple[Command | File, ...]:
    page = folder / "page.md"
    page.write_text(text)
    return read_page(page).steps


def _commands(folder: Path, *lines: str) -> list[Command]:
    steps = _steps(folder, "\n".join(["```console", *lines, "```", ""]))
    return [step for step in steps if isinstance(step, Command)]


def test_every_block_of_every_page_of_the_guide_has_a_runner() -> None:
    pages = [read_page(path) for path in sorted(PAGES.glob("**/*.md"))]

    check_environments(pages)
    assert all(page.commands for page in pages), "a page of the guide shows no command"


def test_lines_below_a_command_are_its_output(tmp_path: Path) -> None:
    first, second = _commands(tmp_path, "$ one", "a", "", "b", "$ two")

    assert (first.text, first.expected, first.output_lines) == ("one", ("a", "", "b"), range(2, 5))
    assert (second.text, second.expected, second.output_lines) == ("two", (), range(6, 6))


def test_a_command_goes_on_behind_a_backslash_and_in_a_document(tmp_path: Path) -> None:
    first, second = _commands(tmp_path, "$ one \\", "  more", "out", "$ cat <<EOF", "> a", ">", "> EOF", "a")

    assert (first.text, first.expected) == ("one \\\n  more", ("out",))
    assert (second.text, second.expected) == ("cat <<EOF\na\n\nEOF", ("a",))


def test_exit_codes_are_stated_or_printed_by_the_next_command(tmp_path: Path) -> None:
    stated, shown, printing = _commands(tmp_path, "$ false   # exit code 1", "$ false", "$ echo $?", "1")

    assert (stated.exit_code, stated.is_code_shown) == (1, False)
    assert (shown.exit_code, shown.is_code_shown) == (0, True)
    assert (printing.exit_code, printing.is_code_shown) == (0, False)


def test_a_prompt_names_user_and_machine_and_a_comment_is_none(tmp_path: Path) -> None:
    (command,) = _commands(tmp_path, "root@node2:~# cat file", "# a comment in it")

    assert command.prompt == Prompt("root", "node2")
    assert command.expected == ("# a comment in it",)


def test_a_block_with_a_caption_is_a_file(tmp_path: Path) -> None:
    block = "```{code-block} toml\n:caption: node2:/etc/x.toml\n\n[a]\nb = 1\n```\n"

    assert _steps(tmp_path, block) == (File("node2", "/etc/x.toml", "[a]\nb = 1\n", 1),)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```sh\nls\n```\n", "page.md:1: a block of kind 'sh', which nobody runs"),
        ("```\nls\n```\n", "page.md:1: a block of kind '', which nobody runs"),
        ("text\n\n    ls\n", "page.md:3: a block by indentation"),
        ("```{code-block} yaml\na: 1\n```\n", "page.md:1: a code-block without ':caption: PATH'"),
        ("```console\nls\n```\n", "page.md:2: a console block begins with a prompt"),
    ],
)
def test_a_block_that_nobody_would_run_is_refused(tmp_path: Path, block: str, told: str) -> None:
    with pytest.raises(WrongPage) as refused:
        _steps(tmp_path, block)

    assert told in str(refused.value)


def test_a_page_with_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("---\nenvironment: moon\n---\n```console\n$ ls\n```\n")
    page = read_page(path)

    with pytest.raises(WrongPage, match="unknown environment 'moon'"):
        check_environments([page])
    assert page.commands[0].line == 4
