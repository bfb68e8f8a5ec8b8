"""Read filters, as people type them, into the query language.

Two spellings share one grammar. Ganeti's list commands use this one:

    status == "running" and (id > 100 or "OP_TEST_DELAY" in opid)
    summary =~ m/web[0-9]+/i        name =* "web*.example"        not archived

and in the short one values need no quotes, and `&`, `|`, `!` stand for words:

    status=running & op=OP_RUN_COMMAND

`!` and `not` bind tighter than `&` and `and`, which bind tighter than `|` and `or`.

Values of some fields may have several words, as in `received < 2h ago and end > yesterday 14:00`; see `Reading`.

Source: cli.md 1.4.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest

# what `common.query.qlang` reads: [operator, operand, ...]; an operand is an expression, or a field or its value
Expression = list["str | int | Expression"]

# keys of labels may contain a minus
_FIELD: Final = re.compile(r"label\.[\w./-]+|[A-Za-z][\w/.]*")
# 007 is a text
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?![^\s()&|])")
# maximum number of digits; such a number always fits into 64 bits
_NUMBER_LENGTH: Final = 18
_BARE: Final = re.compile(r"""[^\s()&|!=<>"'][^\s()&|"']*""")
# words up to the next sign or joining word
_PHRASE: Final = re.compile(r"""[^\s()&|!=<>"']+(?:\s+(?!(?:and|or)(?![\w/.]))[^\s()&|!=<>"']+)*""")
# a regular expression without m must be between slashes
_REGEX: Final = re.compile(r"(?:m([/#^|])|(/))((?:(?!\1|\2).)*)(?:\1|\2)([a-zA-Z]*)", re.DOTALL)
_OPERATORS: Final = ("==", "!=", "<=", ">=", "=~", "!~", "=*", "!*", "=", "<", ">")
_NEGATED: Final = {"!~": "=~", "!*": "=*"}
# operator for whole values -> the one for patterns
_PATTERNED: Final = {"==": "=*", "!=": "!*"}
# brackets and negations in each other; each is a few calls of functions in each other
_DEEPEST: Final = 100
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def _as_written(operator: str, field: str, values: Sequence[str | int]) -> Expression:
    return [operator, field, *values]


@attrs.frozen
class Reading:
    """How the conditions on one kind of things are read."""

    # (operator, field, values) -> the condition for luxid; it may raise InvalidRequest, which then gets the place
    rewrite: Callable[[str, str, Sequence[str | int]], Expression] = _as_written
    # fields whose values may have several words without quotes; None: all
    phrased: frozenset[str] | None = frozenset()


_PLAIN: Final = Reading()


def parse_filter(text: str, reading: Reading = _PLAIN) -> Expression:
    """Read a filter.

    Raises: InvalidRequest: the text is malformed, or `reading` refuses a condition; the message has the character
        where it fails, from 1.
    """
    reader = _Parser(text, reading)
    expression = reader.any_of()
    reader.expect_end()
    return expression


def starred(text: str) -> list[tuple[str, str, str]]:
    """The conditions that compare whole values, by `=` or `!=`, with one that has a `*`: it may be meant as a pattern.

    Args: text: a filter that can be read, with any `Reading`.
    Returns: for each the field, the operator for patterns, and the value.
    """
    found: list[tuple[str, str, str]] = []

    def note(operator: str, field: str, values: Sequence[str | int]) -> Expression:
        if operator in _PATTERNED and "*" in str(values[0]):
            found.append((field, _PATTERNED[operator], str(values[0])))
        return _as_written(operator, field, values)

    parse_filter(text, Reading(note, None))
    return found


def inner_expressions(expression: Expression) -> Iterator[Expression]:
    """The expressions that one with `&`, `|` or `!` joins."""
    return (part for part in expression if isinstance(part, list))


def condition(expression: Expression) -> tuple[str, str, list[str | int]]:
    """The operator, the field and the values of one that joins no others."""
    operator, field, *values = (part for part in expression if not isinstance(part, list))
    return str(operator), str(field), values


def glob_regex(glob: str) -> str:
    """A regular expression for names that match a glob: `*` and `?` stand for characters, a domain may follow."""
    parts = {"*": ".*", "?": "."}
    return "^" + "".join(parts.get(char) or re.escape(char) for char in glob) + r"(\..*)?$"


class _Parser:
    """Reads the text from left to right; each method consumes what it reads."""

    def __init__(self, text: str, reading: Reading) -> None:
        self._text = text
        self._reading = reading
        self._at = 0
        # brackets and negations that are open
        self._depth = 0

    def any_of(self) -> Expression:
        return self._series(self._all_of, "or", ("||", "|"), "|")

    def expect_end(self) -> None:
        self._skip()
        if self._at < len(self._text):
            raise self._refusal("expected 'and', 'or' or the end")

    def _all_of(self) -> Expression:
        return self._series(self._one, "and", ("&&", "&"), "&")

    def _series(self, read: Callable[[], Expression], word: str, signs: Sequence[str], operator: str) -> Expression:
        parts = [read()]
        while self._takes_word(word) or any(map(self._takes, signs)):
            parts.append(read())
        return parts[0] if len(parts) == 1 else [operator, *parts]

    def _one(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refusal(f"more than {_DEEPEST} brackets and negations in each other")
        expression = self._nested()
        self._depth -= 1
        return expression

    def _nested(self) -> Expression:
        if self._takes_word("not") or self._takes("!"):
            return ["!", self._one()]
        if not self._takes("("):
            return self._condition()
        expression = self.any_of()
        if not self._takes(")"):
            raise self._refusal("expected ')'")
        return expression

    def _condition(self) -> Expression:
        self._skip()
        start = self._at
        field = self._match(_FIELD)
        if field is not None:
            operator = next((each for each in _OPERATORS if self._takes(each)), None)
            if operator is not None:
                return self._comparison(start, field, operator)
            if not self._is_before_in():
                return self._read(start, "?", field)
        self._at = start
        return self._containment(start)

    def _comparison(self, start: int, field: str, operator: str) -> Expression:
        if operator in _NEGATED:
            return ["!", self._comparison(start, field, _NEGATED[operator])]
        match operator:
            case "=~":
                return self._read(start, "=~", field, self._regex())
            case "=*":
                return self._read(start, "=~", field, glob_regex(str(self._value())))
            case _:
                phrased = self._reading.phrased
                value = self._phrase() if phrased is None or field in phrased else self._value()
                return self._read(start, "==" if operator == "=" else operator, field, value)

    def _read(self, start: int, operator: str, field: str, *values: str | int) -> Expression:
        try:
            return self._reading.rewrite(operator, field, values)
        except InvalidRequest as error:
            raise InvalidRequest(f"filter, character {start + 1}: {error.message}") from None

    def _containment(self, start: int) -> Expression:
        """`value in field`, `value not in field`."""
        value = self._value("a field, a value with 'in', '!' or '('")
        is_negated = self._takes_word("not")
        if not self._takes_word("in"):
            raise self._refusal("expected 'in' after a value")
        self._skip()
        field = self._match(_FIELD)
        if field is None:
            raise self._refusal("expected the name of a field")
        found = self._read(start, "=[]", field, value)
        return ["!", found] if is_negated else found

    def _is_before_in(self) -> bool:
        before = self._at
        self._takes_word("not")
        is_before = self._takes_word("in")
        self._at = before
        return is_before

    def _phrase(self) -> str | int:
        self._skip()
        start = self._at
        words = self._match(_PHRASE)
        if words is not None and len(words.split()) > 1:
            return words
        self._at = start
        return self._value()

    def _value(self, expected: str = "a value") -> str | int:
        self._skip()
        start = self._at
        if self._at < len(self._text) and self._text[self._at] in "\"'":
            return self._quoted()
        number = self._match(_NUMBER)
        if number is not None:
            if len(number) > _NUMBER_LENGTH:
                raise InvalidRequest(f"filter, character {start + 1}: the number {number[:20]}... is too large")
            return int(number)
        word = self._match(_BARE)
        if word is None:
            raise self._refusal(f"expected {expected}")
        return word

    def _quoted(self) -> str:
        quote = self._text[self._at]
        found = re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL).match(self._text, self._at)
        if found is None:
            raise self._refusal(f"the text begun with {quote} has no end")
        self._at = found.end()
        return _ESCAPED.sub(r"\1", found[1])

    def _regex(self) -> str:
        self._skip()
        found = _REGEX.match(self._text, self._at)
        if found is None:
            return str(self._value("a regular expression, as in m/web[0-9]+/i"))
        flags = "".join(sorted(set(found[4])))
        if set(flags) - {"i", "s"}:
            raise self._refusal(f"unknown flags '{found[4]}', i and s are possible, at the regular expression")
        self._at = found.end()
        return f"(?{flags}){found[3]}" if flags else found[3]

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _takes(self, sign: str) -> bool:
        self._skip()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _takes_word(self, word: str) -> bool:
        self._skip()
        found = re.compile(rf"{word}(?![\w/.])").match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        return True

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _refusal(self, reason: str) -> InvalidRequest:
        rest = self._text[self._at :]
        where = f"before {rest[:20]!r}" if rest else "at the end"
        return InvalidRequest(f"filter, character {self._at + 1}: {reason} {where}")
