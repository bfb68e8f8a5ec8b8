r"""A page of the guide as a list of steps: files to write, and commands with what they print.

    ```console
    $ gnt-job run -- true              a command as the page's own user; `\` at its end or `> ` below it continue it
    root@node2:~# gantry status        as another user, or on another machine
    $ false                            # exit code 1
    ```

    ```{code-block} yaml
    :caption: plan.yaml                a file, in the folder where the last command was; with `node2:` or `~/` before it
    ```

A page may begin with the name of its environment, between two lines `---`: `environment: three-machines`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

DEFAULT_ENVIRONMENT: Final = "machine"
# fences that show something and are not run
_SHOWN: Final = frozenset({"text", "{toctree}", "{include}", "{figure}", "{literalinclude}"})
_FRONT: Final = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
_PROMPT: Final = re.compile(r"(?:(?P<user>[a-z]+)@(?P<machine>[a-z][a-z0-9-]*):~)?(?P<sign>[$#]) (?P<command>.*)")
_EXIT_CODE: Final = re.compile(r"\s+# exit code (\d+)\s*$")
_CAPTION: Final = re.compile(r":caption: +(?:(?P<machine>[a-z][a-z0-9-]*):)?(?P<path>\S+)\s*$")
_OPTION: Final = re.compile(r":[a-z-]+:( |$)")


class WrongPage(Exception):
    """A page has a block that cannot be run; tells page, line and what to do."""


@attrs.frozen
class Prompt:
    """Who types, and where; None: the page's own user, on its only or first machine."""

    user: str | None = None
    machine: str | None = None


@attrs.frozen
class Command:
    prompt: Prompt
    text: str
    # as stated behind the command; 0 where nothing is stated
    exit_code: int
    # whether the next command prints the exit code, so that this one may end with any
    is_code_shown: bool
    expected: tuple[str, ...]
    # lines of the page, counted from 0: the command's first one, and those of its output
    line: int
    output_lines: range
    # spaces before each line of the block
    indent: str


@attrs.frozen
class File:
    machine: str | None
    path: str
    text: str
    line: int


Step = Command | File


@attrs.frozen
class Page:
    path: Path
    environment: str
    steps: tuple[Step, ...]

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(step for step in self.steps if isinstance(step, Command))


def read_page(path: Path) -> Page:
    """The page as it is in this file. Raises: WrongPage."""
    text = path.read_text()
    front = _FRONT.match(text)
    told = yaml.safe_load(front[1]) if front else {}
    # the lines stay where they were
    body = "\n" * front[0].count("\n") + text[front.end() :] if front else text
    return Page(path, told.get("environment", DEFAULT_ENVIRONMENT), tuple(_steps(path, body)))


def _steps(path: Path, body: str) -> Iterator[Step]:
    lines = body.split("\n")
    for token in MarkdownIt("commonmark").parse(body):
        if token.map is None or token.type not in {"fence", "code_block"}:
            continue
        if token.type == "code_block":
            raise WrongPage(f"{path}:{token.map[0] + 1}: a block by indentation; use a fence, which tells its kind")
        yield from _steps_of(path, token, token.map[0], lines[token.map[0]])


def _steps_of(path: Path, token: Token, place: int, fence: str) -> Iterator[Step]:
    words = token.info.split()
    is_file = bool(words) and words[0] == "{code-block}"
    language = words[-1] if words else ""
    content = token.content.split("\n")[:-1]
    if language == "console":
        yield from _commands(path, content, place + 1, fence[: len(fence) - len(fence.lstrip(" "))])
    elif is_file:
        yield _file(path, content, place + 1)
    elif not words or words[0] not in _SHOWN:
        raise WrongPage(
            f"{path}:{place + 1}: a block of kind {token.info.strip()!r}, which nobody runs; commands are 'console', a "
            f"file is '{{code-block}} {language}' with ':caption: PATH', what is only shown is 'text'"
        )


def _file(path: Path, content: list[str], first: int) -> File:
    options = [line for line in content if _OPTION.match(line)]
    caption = next(filter(None, (_CAPTION.match(line) for line in options)), None)
    if caption is None:
        raise WrongPage(f"{path}:{first}: a code-block without ':caption: PATH'; what is only shown is of kind 'text'")
    text = "\n".join(content[len(options) :]).strip("\n")
    return File(caption["machine"], caption["path"], f"{text}\n", first)


def _commands(path: Path, content: list[str], first: int, indent: str) -> Iterator[Command]:
    places = [number for number, line in enumerate(content) if _is_prompt(line)]
    if not places or places[0] != 0:
        raise WrongPage(f"{path}:{first + 1}: a console block begins with a prompt, such as '$ '")
    for place, end in zip(places, [*places[1:], len(content)], strict=True):
        found = _PROMPT.fullmatch(content[place])
        assert found is not None
        text, below = _continued(found["command"], content[place + 1 : end])
        code = _EXIT_CODE.search(text)
        yield Command(
            Prompt(found["user"], found["machine"]),
            text,
            int(code[1]) if code else 0,
            end < len(content) and content[end].endswith("$ echo $?"),
            tuple(below),
            first + place,
            range(first + end - len(below), first + end),
            indent,
        )


def _is_prompt(line: str) -> bool:
    """Whether a command begins here; `# ` alone would also be a comment in what a command prints."""
    found = _PROMPT.fullmatch(line)
    return found is not None and (found["user"] is not None or found["sign"] == "$")


def _continued(command: str, below: list[str]) -> tuple[str, list[str]]:
    """The whole command, and the lines that are its output."""
    while below and (command.endswith("\\") or below[0].startswith("> ") or below[0] == ">"):
        line, *below = below
        command += "\n" + (line[2:] if line.startswith("> ") else "" if line == ">" else line)
    return command, below
