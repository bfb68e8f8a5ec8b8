"""One opcode becomes a job for each node or value: which nodes, and the batch."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from cli.connection import Luxid
from cli.submitting.batchoptions import BatchOptions, elements_of, fill, variable
from cli.submitting.options import SubmissionOptions, job_with_options
from common.errors import PrerequisiteError
from common.objects.kinds import QueryKind, natural_key, short_names
from common.queue.reasons import NODE, Batch, batch_entry, new_batch_id
from common.queue.terms import LONGEST_NAME
from protocol.luxi.jobs import NewJob, OpInput
from protocol.luxi.queries import Query

# The nodes on which a command is to run, looked up before anything is submitted.
#
# Source: DESIGN section 13, "Fleet".


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


def choose_nodes(client: Luxid, batch: BatchOptions) -> ChosenNodes:
    """The nodes of a batch: named ones in the order given, then those of groups by name; each once.

    A named node may be drained, but not offline.

    Raises: PrerequisiteError: a name is unknown, a named node is offline, or no node is left. Else as `Luxid.call`.
    """
    # without a live field, so no node is asked
    answer = client.call(Query(QueryKind.NODE, _FIELDS))
    nodes = sorted((_found(row) for row in answer.values()), key=lambda node: natural_key(node.name))
    named = [_node_named(name, nodes) for name in batch.nodes]
    grouped = list(nodes) if batch.is_each else _of_groups(batch.groups, nodes)
    chosen = dict.fromkeys((*(node.name for node in named), *(node.name for node in grouped if not node.why_not)))
    left_out = [(node.name, node.why_not) for node in grouped if node.why_not and node.name not in chosen]
    if not chosen:
        why = ", ".join(f"{name} is {reason}" for name, reason in left_out[:_MOST_NAMED]) or "there is none"
        raise PrerequisiteError(f"no node is left to run it on: {why}", "wrong_state")
    return ChosenNodes(tuple(chosen), tuple((name, why) for name, why in left_out if why))


def _found(row: Sequence[object]) -> FoundNode:
    name, group, offline, drained = row
    return FoundNode(str(name), str(group), bool(offline), bool(drained))


def _node_named(name: str, nodes: Sequence[FoundNode]) -> FoundNode:
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


# One opcode becomes a job for each node, or for each combination of values, or both: a batch.
#
# Source: DESIGN sections 13, "Fleet", and 16; `common.queue.reasons`.


# name of a variable of the command for each value, and for its place in the batch
_VARIABLE: Final = "GANTRY_EACH_"
_INDEX: Final = "GANTRY_EACH_INDEX"
_COUNT: Final = "GANTRY_EACH_COUNT"


@attrs.frozen
class Spread:
    """An opcode, spread over nodes and values."""

    jobs: Sequence[Sequence[OpInput]]
    # for each job what tells it from the others, by name; empty: there is one job, and no batch
    elements: Sequence[Mapping[str, str]]
    batch_id: str


def spread(op: OpInput, nodes: Sequence[str], batch: BatchOptions, options: SubmissionOptions, command: str) -> Spread:
    """A job of this opcode for each node and combination of values; they are a batch if there may be several.

    Raises: InvalidRequest: there are too many, or a name or label of one breaks a rule.
    """
    along = [variable(NODE, nodes)] if nodes else []
    elements = elements_of([*batch.variables, *along])
    batch_id = new_batch_id(os.urandom(6))
    names = tuple(each.name for each in batch.variables)
    jobs = []
    for place, element in enumerate(elements, 1):
        mine = for_values(op, element, place, len(elements)) if names else _for_node(op, element)
        if nodes:
            mine = {**mine, "node": element[NODE]}
        job = job_with_options(NewJob((mine,)), _named_by_element(options, op, element, names), command)
        if batch.is_batch:
            part = Batch(batch_id, place, len(elements), batch.at_most, batch.failures, names)
            job[0] = {**job[0], "reason": [*_trail(job[0]), batch_entry(part, time.time_ns()).to_wire()]}
        jobs.append(job)
    return Spread(jobs, elements if batch.is_batch else (), batch_id)


def _trail(op: OpInput) -> Sequence[object]:
    trail = op.get("reason")
    return trail if isinstance(trail, list) else ()


def _for_node(op: OpInput, element: Mapping[str, str]) -> OpInput:
    """Without variables only locks have marks: braces in the words of a command are its own."""
    return {**op, "locks": _filled_keys(op.get("locks"), element)}


def for_values(op: OpInput, element: Mapping[str, str], place: int, size: int) -> OpInput:
    """The opcode with these values in place of their names in braces, and as variables of its command.

    Args: place: from 1, of `size` that are made of the opcode.
    """
    argv, env = op["argv"], op.get("env")
    assert isinstance(argv, list)
    values = {f"{_VARIABLE}{name}": value for name, value in element.items()}
    changed: dict[str, object] = {
        **op,
        "argv": [fill(word, element) for word in argv],
        "env": {**_filled(env, element), **values, _INDEX: str(place), _COUNT: str(size)},
        "locks": _filled_keys(op.get("locks"), element),
    }
    for name in ("cwd", "stdin_path", "stdin_text"):
        if isinstance(text := op.get(name), str):
            changed[name] = fill(text, element)
    return changed


def _filled(given: object, element: Mapping[str, str]) -> dict[str, object]:
    return {key: fill(str(value), element) for key, value in (given if isinstance(given, Mapping) else {}).items()}


def _filled_keys(given: object, element: Mapping[str, str]) -> dict[str, object]:
    return {fill(str(key), element): value for key, value in (given if isinstance(given, Mapping) else {}).items()}


def _named_by_element(
    options: SubmissionOptions, op: OpInput, element: Mapping[str, str], names: Sequence[str]
) -> SubmissionOptions:
    """The options of an element: values in name and labels, and as labels; a name that tells the jobs apart."""
    own = [(name, element[name]) for name in names]
    labels = [(key, fill(value, element)) for key, value in options.job_labels]
    given = options.job_name or ""
    name = fill(given, element)
    if names and name == given:
        name = "-".join([given or _program(op), *element.values()])[:LONGEST_NAME].strip()
    return attrs.evolve(options, job_name=name, job_labels=[*own, *labels])


def _program(op: OpInput) -> str:
    argv = op["argv"]
    assert isinstance(argv, list)
    word = str(argv[0]).split(None, 1)[0] if str(argv[0]).split() else ""
    name = os.path.basename(word)
    return name if name.isprintable() else "command"
