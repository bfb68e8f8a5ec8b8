"""Make foreign text safe for one line of a log or a screen."""

import re
from typing import Final

import orjson


def printable(text: str) -> str:
    """The text with escapes for all characters that are not printable, line feeds included: `\\x1b` for ESC."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


# Make foreign text safe to show: characters that a terminal would obey become visible.


# characters that a terminal obeys: C0 but for tab, line feed and the four separators; DEL and C1; and those that change
# the direction of writing, so that a text reads as another one
_DIRECTION: Final = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_OBEYED: Final = re.compile(f"[\x00-\x08\x0b-\x1b\x7f-\x9f{_DIRECTION}]")
# those of these characters that JSON does not escape
_NOT_ESCAPED: Final = re.compile(f"[\x7f-\x9f{_DIRECTION}]")
# pattern of one that changes the direction
BIDI: Final = f"[{_DIRECTION}]"


def defused(text: str) -> str:
    """The text with escapes for the characters that a terminal would obey: `\\x1b` for ESC."""
    return text if text.isprintable() else _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_text(value: object) -> str:
    """The wire form as JSON without any character that a terminal would obey."""
    return _NOT_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", orjson.dumps(value, default=_wire_form).decode())


def _wire_form(value: object) -> object:
    # imported late: most values are JSON already
    from common.wire import unstructure

    return unstructure(value)
