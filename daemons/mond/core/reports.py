"""Reports: what a collector has found, in the form that Ganeti's clients read.

Source: mond.md 2 and 3.
"""

import enum
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import attrs

from common.jsontext import ascii_json

FORMAT_VERSION: Final = 1
# name in paths and lists of the category of collectors without one; in reports it is null
NO_CATEGORY: Final = "default"


class Category(enum.Enum):
    INSTANCE = "instance"
    STORAGE = "storage"
    DAEMON = "daemon"
    HYPERVISOR = "hypervisor"


class ReportKind(enum.IntEnum):
    # numbers alone; a state with its code and words
    PERFORMANCE = 0
    STATUS = 1


class StatusCode(enum.IntEnum):
    """How well something is; the codes of several things can be joined by `|`."""

    OK = 0
    # bad, and being repaired
    REPAIRED = 1
    UNKNOWN = 2
    # bad, a person must act
    BAD = 4


@attrs.frozen
class CollectorStatus:
    code: StatusCode
    message: str = ""

    def to_wire(self) -> dict[str, object]:
        return {"code": self.code.value, "message": self.message}


def worst(statuses: Iterable[CollectorStatus]) -> CollectorStatus:
    """One status for all: the worst code, and the words of those that have some."""
    found = list(statuses)
    code = max((status.code for status in found), default=StatusCode.OK)
    return CollectorStatus(code, "\n".join(status.message for status in found if status.message))


@attrs.frozen
class CollectorAbout:
    """What is known of a collector before it has collected anything."""

    name: str
    category: Category | None
    kind: ReportKind
    # B: comes with the program
    version: str = "B"

    @property
    def path(self) -> tuple[str, str]:
        """Its place among the reports."""
        return self.category.value if self.category else NO_CATEGORY, self.name

    def to_wire(self) -> list[object]:
        """Its row in the list of collectors."""
        return [self.name, self.path[0], self.kind.value]


@attrs.frozen
class Report:
    """What a collector has found, or why it has not."""

    about: CollectorAbout
    # nanoseconds since the epoch of the moment when it was collected
    at_ns: int
    # JSON
    data: bytes
    status: CollectorStatus

    def encode(self) -> bytes:
        """The report as JSON, keys in Ganeti's order."""
        about = self.about
        head = {
            "name": about.name,
            "version": about.version,
            "format_version": FORMAT_VERSION,
            "timestamp": self.at_ns,
            "category": about.category.value if about.category else None,
            "kind": about.kind.value,
        }
        return b'%b,"data":%b}' % (ascii_json(head)[:-1], self.data)


def failed(about: CollectorAbout, at_ns: int, message: str) -> Report:
    """The report of a collector that has failed, hangs, or has not collected anything yet."""
    status = CollectorStatus(StatusCode.UNKNOWN, message)
    return Report(about, at_ns, ascii_json({"error": message, "status": status.to_wire()}), status)


def encode_all(reports: Iterable[Report]) -> bytes:
    return b"[%b]" % b",".join(report.encode() for report in reports)


# Numbers in the text format of Prometheus.
#
# Source: "Exposition formats", text-based format 0.0.4.


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
