"""Nodes, groups, networks and instances under /3, read only; and the bare query of LUXI for all but jobs.

Source: luxid.md 7.
"""

from collections.abc import Mapping

import attrs


@attrs.frozen
class ObjectList:
    """Objects with the values of the fields that were asked for; null where there is none."""

    objects: tuple[Mapping[str, object], ...]


@attrs.frozen
class ObjectQuery:
    """A query of LUXI; the result is LUXI's: definitions of the fields, and rows of [state, value]."""

    fields: tuple[str, ...]
    # expression of the query language; null: all
    filter: object = None
