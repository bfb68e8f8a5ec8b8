"""One opcode becomes a job for each node, or for each combination of values, or both: a batch.

Source: DESIGN sections 13, "Fleet", and 16; `common.queue.batch`.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from cli.fleet.eachvalues import elements_of, fill, variable
from cli.fleet.fleetoptions import NODE, FleetWish
from cli.submitting.wishes import Wishes, job_with_wishes
from common.queue.batch import Batch, batch_entry
from common.queue.terms import LONGEST_NAME
from protocol.luxi.submission import OpInput

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


def spread(op: OpInput, nodes: Sequence[str], wish: FleetWish, wishes: Wishes, command: str) -> Spread:
    """A job of this opcode for each node and combination of values; they are a batch if there may be several.

    Raises: InvalidRequest: there are too many, or a name or label of one breaks a rule.
    """
    along = [variable(NODE, nodes)] if nodes else []
    elements = elements_of([*wish.variables, *along])
    # a letter first: no id of a job looks like this
    batch_id = "b" + os.urandom(6).hex()[1:]
    names = tuple(each.name for each in wish.variables)
    jobs = []
    for place, element in enumerate(elements, 1):
        mine = for_values(op, element, place, len(elements)) if names else _for_node(op, element)
        if nodes:
            mine = {**mine, "node": element[NODE]}
        job = job_with_wishes([mine], _named(wishes, op, element, names), command)
        if wish.is_batch:
            batch = Batch(batch_id, place, len(elements), wish.at_most, wish.failures, names)
            job[0] = {**job[0], "reason": [*_trail(job[0]), batch_entry(batch, time.time_ns()).to_wire()]}
        jobs.append(job)
    return Spread(jobs, elements if wish.is_batch else (), batch_id)


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


def _named(wishes: Wishes, op: OpInput, element: Mapping[str, str], names: Sequence[str]) -> Wishes:
    """The wishes for an element: values in name and labels, and as labels; a name that tells the jobs apart."""
    own = [(name, element[name]) for name in names]
    labels = [(key, fill(value, element)) for key, value in wishes.job_labels]
    given = wishes.job_name or ""
    name = fill(given, element)
    if names and name == given:
        name = "-".join([given or _program(op), *element.values()])[:LONGEST_NAME].strip()
    return attrs.evolve(wishes, job_name=name, job_labels=[*own, *labels])


def _program(op: OpInput) -> str:
    argv = op["argv"]
    assert isinstance(argv, list)
    word = str(argv[0]).split(None, 1)[0] if str(argv[0]).split() else ""
    name = os.path.basename(word)
    return name if name.isprintable() else "command"
