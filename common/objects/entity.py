"""The common fields of configuration objects, and the rules for writing their classes.

A class lists its fields under their JSON names, so that the class is the list of keys:

    name: str                        required: null or missing is an error
    ip: str | None = None            optional: absent stays absent, and is not written back
    tags: frozenset[str] = ...       has a default: written always, even if it was absent
    ... = attrs.field(..., metadata=UNWRITTEN_DEFAULT)      the same, but written only if it differs

Source: wconfd.md 7.1.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.objects.numbers import plain

# JSON values by free names, such as the parameters of a hypervisor
Params = Mapping[str, object]

UNWRITTEN: Final = "gantry.unwritten"
UNWRITTEN_DEFAULT: Final = {UNWRITTEN: True}


def own_first(_: type, fields: list["attrs.Attribute[object]"]) -> list["attrs.Attribute[object]"]:
    """A field transformer: the class's own fields before the inherited ones, in the order of the files."""
    return sorted(fields, key=lambda field: field.inherited)  # type: ignore[attr-defined]  # lacks a stub


@attrs.frozen(kw_only=True)
class Entity:
    """An object with an id, a serial number that counts its changes, times and tags."""

    # seconds since the epoch; 0: not known
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    # number of changes, counted from 1
    serial_no: int
    tags: frozenset[str] = frozenset()
