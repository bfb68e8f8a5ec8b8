"""Where words go: results to standard output, all else to standard error.

Source: STYLE section 8.
"""

import sys
from typing import Any

import orjson


def say(text: str) -> None:
    """A line of results."""
    sys.stdout.write(f"{text}\n")


def write(text: str) -> None:
    """Results as they are, shown at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_error(text: str) -> None:
    """What a command printed to its standard error, shown at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """A result in its wire form, as one line."""
    say(orjson.dumps(value).decode())


def remark(text: str) -> None:
    """A line that is no result."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """An error; only the end of a log makes it longer than a line."""
    remark("error: " + "\n".join(map(one_line, text.splitlines())))


def warn(text: str) -> None:
    remark(f"warning: {one_line(text)}")


def one_line(text: str) -> str:
    """The text with control characters escaped: for a table's cell or an error, whatever a job says."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def is_interactive() -> bool:
    """Whether a person can be asked: standard input and standard error are terminals."""
    # None: it is closed
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask yes or no; without a terminal the answer is no."""
    if not is_interactive():
        return False
    remark(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
