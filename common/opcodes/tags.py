"""Opcodes on tags.

Source: opcodes.md 4, 6.2.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from common.lockdecl import LevelRule, LockRules, exclusive, shared
from common.locks import LockLevel
from common.objects.kinds import TagKind
from common.opcodes.base import OpCode
from common.opcodes.types import AskedKind, JsonList, NonEmpty

_LEVELS: Final[Mapping[TagKind, LockLevel]] = {
    TagKind.INSTANCE: LockLevel.INSTANCE,
    TagKind.NODE: LockLevel.NODE,
    TagKind.NODEGROUP: LockLevel.NODEGROUP,
    TagKind.NETWORK: LockLevel.NETWORK,
}
# names of Ganeti's luxid for its summaries
_KIND_NAMES: Final[Mapping[TagKind, str]] = {
    TagKind.INSTANCE: "TagKindInstance",
    TagKind.NODE: "TagKindNode",
    TagKind.NODEGROUP: "TagKindGroup",
    TagKind.CLUSTER: "TagKindCluster",
    TagKind.NETWORK: "TagKindNetwork",
}


def _rules(kind: TagKind, rule: LevelRule) -> LockRules:
    """The cluster's own tags need no lock."""
    return {_LEVELS[kind]: rule} if kind in _LEVELS else {}


@attrs.frozen(kw_only=True)
class OpTagsGet(OpCode):
    """Tell the tags of an object."""

    SUMMARY: ClassVar[str | None] = "kind"

    kind: TagKind
    use_locking: bool = False
    # unset or empty: the cluster
    name: str | None = None

    def summary_value(self) -> str:
        return _KIND_NAMES[self.kind]

    def lock_rules(self) -> LockRules:
        return _rules(self.kind, shared("name")) if self.use_locking else {}


@attrs.frozen(kw_only=True)
class OpTagsSearch(OpCode):
    """Find tags by a regular expression."""

    SUMMARY: ClassVar[str | None] = "pattern"

    pattern: NonEmpty


@attrs.frozen(kw_only=True)
class OnTags(OpCode):
    """The common base of opcodes that change the tags of an object."""

    kind: TagKind
    tags: tuple[str, ...]
    # unset or empty: the cluster
    name: str | None = None

    def lock_rules(self) -> LockRules:
        return _rules(self.kind, exclusive("name"))


@attrs.frozen(kw_only=True)
class OpTagsSet(OnTags):
    """Add tags to an object."""


@attrs.frozen(kw_only=True)
class OpTagsDel(OnTags):
    """Remove tags from an object."""


# Opcodes that only query.
#
# Source: opcodes.md 4, 6.2.


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
