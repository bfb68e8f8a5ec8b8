"""Where words go: results to standard output, all else to standard error.

Source: STYLE section 8.
"""

import re
import sys
from typing import Final

import orjson

from common.printable import printable

# what a terminal obeys: C0 but for tab, line feed and the four separators; DEL and C1; and what turns the direction of
# writing, so that a text reads as another one
_BIDI: Final = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_OBEYED: Final = re.compile(f"[\x00-\x08\x0b-\x1b\x7f-\x9f{_BIDI}]")
# those of them that JSON does not escape by itself
_NOT_ESCAPED: Final = re.compile(f"[\x7f-\x9f{_BIDI}]")


def say(text: str) -> None:
    """A line of results; what a terminal would obey is made visible."""
    sys.stdout.write(f"{defused(text)}\n")


def say_styled(text: str) -> None:
    """A line of results that we have coloured; all that came from elsewhere in it has been made visible."""
    sys.stdout.write(f"{text}\n")


def write(text: str) -> None:
    """Results as they are, shown at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_json(value: object) -> None:
    """A result in its wire form, as one line."""
    sys.stdout.write(f"{json_text(value)}\n")


def remark(text: str) -> None:
    """A line that is no result; what a terminal would obey is made visible."""
    sys.stdout.flush()
    print(defused(text), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """An error; only the end of a log makes it longer than a line."""
    remark("error: " + "\n".join(map(one_line, text.splitlines())))


def warn(text: str) -> None:
    remark(f"warning: {one_line(text)}")


def one_line(text: str) -> str:
    """The text with control characters escaped: for a table's cell or an error, whatever a job says."""
    return printable(text)


def defused(text: str) -> str:
    """The text with what a terminal would obey as escapes: `\\x1b` for ESC."""
    return text if text.isprintable() else _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_text(value: object) -> str:
    """JSON in which no character is left that a terminal would obey."""
    return _NOT_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", orjson.dumps(value, default=_wire_form).decode())


def _wire_form(value: object) -> object:
    # imported late: most of what is shown is JSON already
    from common.wire import unstructure

    return unstructure(value)


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
