"""The nodes on which a command is to run, looked up before anything is submitted.

Source: DESIGN section 13, "Fleet".
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from cli.fleet.fleetoptions import FleetWish
from cli.luxid import Luxid
from common.errors import PrerequisiteError
from common.objects.naming import natural_key, short_names
from common.query.kinds import QueryKind
from protocol.luxi.queries import Query

_FIELDS: Final = ("name", "group", "offline", "drained")
# more names than this are not listed in an error
_MOST_NAMED: Final = 8


@attrs.frozen
class FoundNode:
    """A node of the configuration."""

    name: str
    group: str
    is_offline: bool
    is_drained: bool

    @property
    def why_not(self) -> str | None:
        """Why nothing is to be run there; None: nothing is against it."""
        return "offline" if self.is_offline else "drained" if self.is_drained else None


@attrs.frozen
class ChosenNodes:
    names: tuple[str, ...]
    # nodes of the chosen groups that are left out, with the reason
    left_out: tuple[tuple[str, str], ...]


def choose_nodes(client: Luxid, wish: FleetWish) -> ChosenNodes:
    """The nodes for a wish: named ones in the order given, then those of groups by name; each once.

    A named node may be drained, but not offline.

    Raises: PrerequisiteError: a name is unknown, a named node is offline, or no node is left. Else as `Luxid.call`.
    """
    # without a live field, so no node is asked
    answer = client.call(Query(QueryKind.NODE, _FIELDS))
    nodes = sorted((_found(row) for row in answer.values()), key=lambda node: natural_key(node.name))
    named = [_named(name, nodes) for name in wish.nodes]
    grouped = list(nodes) if wish.is_each else _of_groups(wish.groups, nodes)
    chosen = dict.fromkeys((*(node.name for node in named), *(node.name for node in grouped if not node.why_not)))
    left_out = [(node.name, node.why_not) for node in grouped if node.why_not and node.name not in chosen]
    if not chosen:
        why = ", ".join(f"{name} is {reason}" for name, reason in left_out[:_MOST_NAMED]) or "there is none"
        raise PrerequisiteError(f"no node is left to run it on: {why}", "wrong_state")
    return ChosenNodes(tuple(chosen), tuple((name, why) for name, why in left_out if why))


def _found(row: Sequence[object]) -> FoundNode:
    name, group, offline, drained = row
    return FoundNode(str(name), str(group), bool(offline), bool(drained))


def _named(name: str, nodes: Sequence[FoundNode]) -> FoundNode:
    matches = [node for node in nodes if node.name == name] or [
        node for node in nodes if name in short_names(node.name)
    ]
    if len(matches) > 1:
        raise PrerequisiteError(
            f"'{name}' may be {_listed(node.name for node in matches)}; write it whole", "wrong_input"
        )
    if not matches:
        names = [node.name for node in nodes]
        words = [*names, *(short for each in names for short in short_names(each))]
        raise PrerequisiteError(f"there is no node '{name}'; {_advice(name, words, names)}", "unknown_entity")
    if matches[0].is_offline:
        raise PrerequisiteError(f"node '{matches[0].name}' is marked offline; nothing can be run there", "wrong_state")
    return matches[0]


def _of_groups(groups: Sequence[str], nodes: Sequence[FoundNode]) -> list[FoundNode]:
    known = sorted({node.group for node in nodes}, key=natural_key)
    for name in groups:
        if name not in known:
            advice = _advice(name, known, known)
            raise PrerequisiteError(f"there is no node group '{name}' that has nodes; {advice}", "unknown_entity")
    return [node for node in nodes if node.group in groups]


def _advice(name: str, words: Sequence[str], names: Sequence[str]) -> str:
    # imported late: only an error needs it
    import difflib

    nearest = difflib.get_close_matches(name, words, n=1)
    return f"did you mean '{nearest[0]}'?" if nearest else f"there are {_listed(names)}"


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    left = len(shown) - _MOST_NAMED
    return f"{', '.join(shown[:_MOST_NAMED])}{f' and {left} more' if left > 0 else ''}"
