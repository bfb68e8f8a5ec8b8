"""Regular expressions from clients: searched in linear time, whatever the pattern.

`(a+)+$` and one line of text can occupy a backtracking engine for years, and with it the only event
loop of a daemon. RE2's time grows only with the text. The price: no look-around and no back
references, as no linear engine has them; such patterns are refused, with advice.

Source: luxid.md 6.3 (`=~`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import attrs

from common.errors import InvalidRequest

# characters of a pattern, and bytes of its compiled form, caches included
LONGEST: Final = 4096
_MEMORY: Final = 2**20
_LOOK_AROUND: Final = ("(?=", "(?!", "(?<", "\\1", "\\2", "\\3", "\\4", "\\5", "\\6", "\\7", "\\8", "\\9", "\\k")


@attrs.frozen(eq=False, repr=False)
class Regex:
    """A pattern that is searched anywhere in a text. Make one with `parse_regex`."""

    pattern: str
    # function: bytes of UTF-8 -> match or None
    _search: Callable[[bytes], object]

    def is_in(self, text: str) -> bool:
        """Cost: linear in the text."""
        return self._search(text.encode("utf-8", "surrogatepass")) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"


@lru_cache(maxsize=128)
def parse_regex(pattern: str) -> Regex:
    """Read a pattern.

    Raises: InvalidRequest: the pattern is malformed, too long, or needs more than linear time; the
        message has the character (from 1) and the part where it fails.
    """
    # imported late: it is large, and most filters have no pattern
    import re2

    if len(pattern) > LONGEST:
        raise InvalidRequest(f"the regular expression has {len(pattern)} characters; at most {LONGEST} are allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Regex(pattern, re2.compile(pattern.encode(), options).search)
    except UnicodeEncodeError:
        raise InvalidRequest(f"the regular expression {pattern!r:.80} is not Unicode text") from None
    except re2.error as error:
        raise InvalidRequest(_explain(pattern, error)) from None


def _explain(pattern: str, error: Exception) -> str:
    text = error.args[0].decode("utf-8", "replace") if error.args else "it cannot be compiled"
    reason, _, part = text.partition(": ")
    place = pattern.find(part) if part else -1
    where = f" at character {place + 1}, {part!r:.40}" if place >= 0 else ""
    if part.startswith(_LOOK_AROUND):
        reason = "look-around and back references are not supported, combine conditions by '&' and '!'"
    return f"bad regular expression {pattern!r:.80}: {reason}{where}"
