"""Nodes, groups, networks and instances under /3, read only; and the bare query of LUXI for all but jobs.

Source: luxid.md 7.
"""

from collections.abc import Mapping

import attrs

from protocol.luxi.queries import QueryResult


@attrs.frozen
class ObjectList:
    """Objects with the values of the fields that were asked for; null where there is none."""

    objects: tuple[Mapping[str, object], ...]
    # sentences for people, such as how many objects a filter could not judge
    notes: tuple[str, ...] = ()


@attrs.frozen
class ObjectQuery:
    """A query of LUXI."""

    fields: tuple[str, ...]
    # expression of the query language; null: all
    filter: object = None


@attrs.frozen
class ObjectRows(QueryResult):
    """The result of LUXI: definitions of the fields, and rows of [state, value]."""

    # as in a list
    notes: tuple[str, ...] = ()
