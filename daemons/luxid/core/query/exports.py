"""The fields of the exports on nodes.

Source: luxid.md 7.6, "export".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.objects.index import ConfigIndex
from common.objects.node import Node
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.fields import Kind, Need, QueryField, host_aliases
from daemons.luxid.core.query.live import NoFacts, status_without
from daemons.luxid.core.query.rows import Row


@attrs.frozen(eq=False)
class ExportRow(Row[Node]):
    """An export on a node; or a node whose exports are not known."""

    # name of the export
    export: str | NoFacts = NoFacts.NOT_ASKED


_Field = QueryField[ExportRow]


def export_rows(nodes: Iterable[Node], config: ConfigIndex) -> list[ExportRow]:
    """The rows of these nodes before anybody is asked."""
    return [ExportRow(node, config) for node in nodes]


def found_exports(rows: Iterable[ExportRow], found: Mapping[str, Sequence[str] | NoFacts]) -> list[ExportRow]:
    """A row for each export; a node whose exports are not known has one row.

    Args: found: UUID of a node -> the names of its exports, or why they are not known.
    """
    return [ExportRow(row.object, row.config, export) for row in rows for export in _each(found[row.object.uuid])]


def _each(exports: Sequence[str] | NoFacts) -> Sequence[str | NoFacts]:
    return (exports,) if isinstance(exports, NoFacts) else exports


def _name(row: ExportRow) -> object:
    return status_without(row.export, row.object) if isinstance(row.export, NoFacts) else row.export


EXPORTS: Final[Things[ExportRow]] = Things.of(
    "node",
    (
        _Field("node", "Node", Kind.TEXT, "name of the node", lambda row: row.object.name, aliases=host_aliases),
        _Field("export", "Export", Kind.TEXT, "name of an export on it", _name, need=Need.EXPORTS),
    ),
    name_field="node",
)
