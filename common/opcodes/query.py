"""Opcodes that only query.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.opcodes.base import OpCode
from common.opcodes.types import AskedKind, JsonList, NonEmpty


@attrs.frozen(kw_only=True)
class OpQuery(OpCode):
    """Ask for fields of objects."""

    SUMMARY: ClassVar[str | None] = "what"

    what: AskedKind
    use_locking: bool = False
    fields: tuple[NonEmpty, ...]
    # an expression of the query language
    qfilter: JsonList | None = None


@attrs.frozen(kw_only=True)
class OpQueryFields(OpCode):
    """Ask which fields there are."""

    SUMMARY: ClassVar[str | None] = "what"

    what: AskedKind
    # unset: all fields
    fields: tuple[NonEmpty, ...] | None = None


@attrs.frozen(kw_only=True)
class OpOsDiagnose(OpCode):
    """Tell the state of the operating systems' definitions."""

    output_fields: tuple[NonEmpty, ...]
    names: tuple[NonEmpty, ...] = ()


@attrs.frozen(kw_only=True)
class OpExtStorageDiagnose(OpCode):
    """Tell the state of the external storage providers."""

    output_fields: tuple[NonEmpty, ...]
    names: tuple[NonEmpty, ...] = ()
