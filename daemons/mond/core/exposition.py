"""Numbers in the text format of Prometheus.

Source: "Exposition formats", text-based format 0.0.4.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import attrs

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _is_name(_: object, __: object, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(f"'{value}' cannot be the name of a number; letters, digits and '_' can")


def _are_labels(_: object, __: object, value: Mapping[str, str]) -> None:
    wrong = [name for name in value if not _LABEL.fullmatch(name)]
    if wrong:
        raise ValueError(f"'{wrong[0]}' cannot be the name of a label; letters, digits and '_' can")


@attrs.frozen
class Number:
    """One value, with what tells it apart from others of its name. Raises: ValueError: a name that is none."""

    name: str = attrs.field(validator=_is_name)
    value: float
    labels: Mapping[str, str] = attrs.field(factory=dict, validator=_are_labels)
    # what it means; the first one of a name counts
    help: str = ""
    kind: Literal["gauge", "counter"] = "gauge"


def render(numbers: Iterable[Number]) -> str:
    """The text: values of one name stand together, each once."""
    families: dict[str, dict[tuple[tuple[str, str], ...], Number]] = {}
    for number in numbers:
        key = tuple(sorted((name, str(value)) for name, value in number.labels.items()))
        families.setdefault(number.name, {}).setdefault(key, number)
    return "".join(line for family in families.values() for line in _family(list(family.values())))


def _family(numbers: list[Number]) -> Iterator[str]:
    first = numbers[0]
    if first.help:
        yield f"# HELP {first.name} {_escaped(first.help)}\n"
    yield f"# TYPE {first.name} {first.kind}\n"
    for number in numbers:
        labels = ",".join(f'{name}="{_quoted(str(value))}"' for name, value in number.labels.items())
        yield f"{number.name}{'{' + labels + '}' if labels else ''} {_value(number.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
