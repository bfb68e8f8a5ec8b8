"""A place in a JSON document: JSON pointers.

Source: RFC 6901; confd.md 4.
"""

from typing import Final

# digits of the longest index that is read
_INDEX_DIGITS: Final = 9


class NoPlace(Exception):
    """The text is no pointer, or nothing is there."""


def find(document: object, pointer: str) -> object:
    """The value at a place. Raises: NoPlace: also for the whole document."""
    if not pointer.startswith("/"):
        raise NoPlace
    value = document
    for token in pointer[1:].split("/"):
        value = _step(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def _step(value: object, token: str) -> object:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and token.isascii() and token.isdigit() and len(token) <= _INDEX_DIGITS:
        index = int(token)
        if index < len(value):
            return value[index]
    raise NoPlace
