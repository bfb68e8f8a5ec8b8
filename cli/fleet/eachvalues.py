"""Commands that are the same but for some values: variables, their values, and the marks that stand for them.

A mark is the name of a variable in braces, `{host}`. It is replaced by the value as it is: a word of a command stays
one word, whatever blanks or signs the value has. `{{host}}` is the text `{host}`; braces around anything else are text.

Source: DESIGN section 16, "for-each arrays"; everyday.md section d.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue.terms import check_label

# jobs of one submission
MOST_ELEMENTS: Final = 10_000
MOST_VARIABLES: Final = 8
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
# names of other fields where the elements are told as JSON
_TAKEN: Final = ("id", "refused")
_BRACED: Final = re.compile(r"(?<!\{)\{([a-z][a-z0-9_]{0,30})\}(?!\})", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,9})\.\.(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)
_LARGEST: Final = 999_999_999
# what was meant as a range: `../x` and `a..b` are values
_LIKE_RANGE: Final = re.compile(r"-?\d+\.\..*|\.\.-?\d+", re.ASCII)


@attrs.frozen
class Variable:
    """A name and its values, at least one."""

    name: str
    values: tuple[str, ...]


def read_variable(name: str, text: str) -> Variable:
    """The variable of `host=web1,web2`, `n=1..100`, `n=001..100..5` or `n=1..3,7`.

    A range ends with its last number, if its step meets that. A zero before a number keeps all as wide as the widest.
    Raises: InvalidRequest: a range is malformed, empty or too large. Else as `variable`.
    """
    values: list[str] = []
    for part in text.split(",") if text else ():
        values += _range(name, part) if _LIKE_RANGE.fullmatch(part) else [part]
        if len(values) > MOST_ELEMENTS:
            raise _too_many(name, text, len(values))
    return variable(name, values)


def _range(name: str, text: str) -> list[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"{name}={text:.40} is not a range; write FIRST..LAST or FIRST..LAST..STEP, whole numbers from 0 to "
            f"{_LARGEST:,}, or values that begin with digits and dots as lines of a file, {name}=@FILE"
        )
    ends, step = (match[1], match[2]), int(match[3] or 1)
    if step == 0:
        raise InvalidRequest(f"{name}={text} has a step of 0; it is at least 1")
    numbers = range(int(ends[0]), int(ends[1]) + 1, step)
    if not numbers:
        raise InvalidRequest(f"{name}={text} is empty; write the smaller number first: {ends[1]}..{ends[0]}")
    if len(numbers) > MOST_ELEMENTS:
        raise _too_many(name, text, len(numbers))
    width = max(map(len, ends)) if any(end[0] == "0" and len(end) > 1 for end in ends) else 0
    return [f"{number:0{width}}" for number in numbers]


def _too_many(name: str, text: str, count: int) -> InvalidRequest:
    return InvalidRequest(f"{name}={text:.40} has {count:,} values, of at most {MOST_ELEMENTS:,}")


def variable(name: str, values: Sequence[str]) -> Variable:
    """Raises: InvalidRequest: the name cannot be a variable's, a value cannot be a label's, or there is none."""
    if _NAME.fullmatch(name) is None or name in _TAKEN:
        raise InvalidRequest(
            f"'{name:.40}' cannot stand in braces; a name has 1 to 31 of a-z, 0-9 and '_', begins with a letter, "
            f"and is none of {', '.join(_TAKEN)}"
        )
    if not values:
        raise InvalidRequest(f"'{name}' has no values; write {name}=VALUE,VALUE or {name}=@FILE with one a line")
    for value in values:
        # each job has its values as labels
        check_label(name, value)
    return Variable(name, tuple(values))


def lines_of(text: str) -> list[str]:
    """The values in a file: one a line; empty lines and those that begin with # are left out."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def elements_of(variables: Sequence[Variable]) -> list[dict[str, str]]:
    """Each combination of values, by name; the last variable changes fastest.

    Raises: InvalidRequest: a variable is there twice, or there are too many combinations.
    """
    names = [each.name for each in variables]
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidRequest(f"'{repeated}' is there twice; write all its values at once")
    if len(names) > MOST_VARIABLES:
        raise InvalidRequest(f"at most {MOST_VARIABLES} variables, got {len(names)}")
    count = math.prod(len(each.values) for each in variables)
    if count > MOST_ELEMENTS:
        told = " x ".join(f"{len(each.values):,} of {each.name}" for each in variables)
        raise InvalidRequest(f"{told} are {count:,} jobs, of at most {MOST_ELEMENTS:,} in one submission")
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(each.values for each in variables))]


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of their marks."""
    return _marks(values).sub(lambda match: "{" + match[1] + "}" if match[1] else values[match[2]], text)


def marked(names: Iterable[str], texts: Iterable[str]) -> Iterator[str]:
    """The texts that have a mark of these names."""
    pattern = _marks(names)
    return (text for text in texts if any(match[2] for match in pattern.finditer(text)))


def strange_marks(names: Sequence[str], texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Words in braces that are no marks and nearly one: `hots` with the name `host` that it may mean."""
    # imported late: only who uses marks needs it
    import difflib

    for word in dict.fromkeys(word for text in texts for word in _BRACED.findall(text)):
        if word not in names and (nearest := difflib.get_close_matches(word, names, n=1, cutoff=0.7)):
            yield word, nearest[0]


def _marks(names: Iterable[str]) -> re.Pattern[str]:
    """Matches names in double braces, group 1, and marks, group 2."""
    either = "|".join(map(re.escape, names)) or "(?!)"
    # the module keeps what it has compiled lately, so this is cheap for each of many elements
    return re.compile(r"\{\{(" + either + r")\}\}|\{(" + either + r")\}")
