"""What an expression implies about a part of the fields.

Theory. Some values are dear to learn. Before they are, the things that cannot pass are left out: every condition on a
dear field is replaced by true, and under a negation by false. In the order false < unknown < true no replacement makes
the verdict smaller, because `&` and `|` keep that order and `!` turns it round. So a thing for which the implied
expression is false cannot pass, whatever the dear values are.
"""

from collections.abc import Callable
from typing import Final

from common.query.qlang import All, Always, Compare, Contains, Expression, IsTrue, Matches, Not, Some

_TRUE: Final = All(())
_FALSE: Final = Some(())


def implied(expression: Expression, is_cheap: Callable[[str], bool]) -> Expression:
    """The part of an expression that is about cheap fields; it holds wherever the expression holds."""
    return _bound(expression, is_cheap, _TRUE, _FALSE)


def _bound(
    expression: Expression, is_cheap: Callable[[str], bool], dear: Expression, negated: Expression
) -> Expression:
    """Args: dear: stands for a condition on a dear field; negated: the same, under one more negation."""
    match expression:
        case All(parts=parts):
            return All(tuple(_bound(part, is_cheap, dear, negated) for part in parts))
        case Some(parts=parts):
            return Some(tuple(_bound(part, is_cheap, dear, negated) for part in parts))
        case Not(part=part):
            return Not(_bound(part, is_cheap, negated, dear))
        case Compare(field=name) | Contains(field=name) | IsTrue(field=name) | Matches(field=name):
            return expression if is_cheap(name) else dear
        case Always():
            return expression
        case _:
            # `Expression` may have further classes
            raise TypeError(f"no expression: {expression!r}")
