"""The options that spread a command over nodes and values.

Source: DESIGN sections 13, "Fleet", and 16.
"""

import itertools
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from cli.options import ReadType, complete_group, complete_node, gathered
from common.errors import InvalidRequest
from common.queue.reasons import NODE
from common.queue.terms import check_label

# Commands that are the same but for some values: variables, their values, and the marks that stand for them.
#
# A mark is the name of a variable in braces, `{host}`. It is replaced by the value as it is: a word of a command stays
# one word, whatever blanks or signs the value has. `{{host}}` is the text `{host}`; braces around anything else are
# text.
#
# Source: DESIGN section 16, "for-each arrays"; everyday.md section d.


# jobs of one submission
MOST_ELEMENTS: Final = 10_000
MOST_VARIABLES: Final = 8
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
# names of other fields where the elements are told as JSON
_TAKEN: Final = ("id", "refused")
_BRACED: Final = re.compile(r"(?<!\{)\{([a-z][a-z0-9_]{0,30})\}(?!\})", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,9})\.\.(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)
_LARGEST: Final = 999_999_999
# what was meant as a range: `../x` and `a..b` are values
_LIKE_RANGE: Final = re.compile(r"-?\d+\.\..*|\.\.-?\d+", re.ASCII)


@attrs.frozen
class BatchVariable:
    """A name and its values, at least one."""

    name: str
    values: tuple[str, ...]


def read_variable(name: str, text: str) -> BatchVariable:
    """The variable of `host=web1,web2`, `n=1..100`, `n=001..100..5` or `n=1..3,7`.

    A range ends with its last number, if its step meets that. A zero before a number keeps all as wide as the widest.
    Raises: InvalidRequest: a range is malformed, empty or too large. Else as `variable`.
    """
    values: list[str] = []
    for part in text.split(",") if text else ():
        values += _range(name, part) if _LIKE_RANGE.fullmatch(part) else [part]
        if len(values) > MOST_ELEMENTS:
            raise _too_many(name, text, len(values))
    return variable(name, values)


def _range(name: str, text: str) -> list[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"{name}={text:.40} is not a range; write FIRST..LAST or FIRST..LAST..STEP, whole numbers from 0 to "
            f"{_LARGEST:,}, or values that begin with digits and dots as lines of a file, {name}=@FILE"
        )
    ends, step = (match[1], match[2]), int(match[3] or 1)
    if step == 0:
        raise InvalidRequest(f"{name}={text} has a step of 0; it is at least 1")
    numbers = range(int(ends[0]), int(ends[1]) + 1, step)
    if not numbers:
        raise InvalidRequest(f"{name}={text} is empty; write the smaller number first: {ends[1]}..{ends[0]}")
    if len(numbers) > MOST_ELEMENTS:
        raise _too_many(name, text, len(numbers))
    width = max(map(len, ends)) if any(end[0] == "0" and len(end) > 1 for end in ends) else 0
    return [f"{number:0{width}}" for number in numbers]


def _too_many(name: str, text: str, count: int) -> InvalidRequest:
    return InvalidRequest(f"{name}={text:.40} has {count:,} values, of at most {MOST_ELEMENTS:,}")


def variable(name: str, values: Sequence[str]) -> BatchVariable:
    """Raises: InvalidRequest: the name cannot be a variable's, a value cannot be a label's, or there is none."""
    if _NAME.fullmatch(name) is None or name in _TAKEN:
        raise InvalidRequest(
            f"'{name:.40}' cannot stand in braces; a name has 1 to 31 of a-z, 0-9 and '_', begins with a letter, "
            f"and is none of {', '.join(_TAKEN)}"
        )
    if not values:
        raise InvalidRequest(f"'{name}' has no values; write {name}=VALUE,VALUE or {name}=@FILE with one a line")
    for value in values:
        # each job has its values as labels
        check_label(name, value)
    return BatchVariable(name, tuple(values))


def lines_of(text: str) -> list[str]:
    """The values in a file: one a line; empty lines and those that begin with # are left out."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def elements_of(variables: Sequence[BatchVariable]) -> list[dict[str, str]]:
    """Each combination of values, by name; the last variable changes fastest.

    Raises: InvalidRequest: a variable is there twice, or there are too many combinations.
    """
    names = [each.name for each in variables]
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidRequest(f"'{repeated}' is there twice; write all its values at once")
    if len(names) > MOST_VARIABLES:
        raise InvalidRequest(f"at most {MOST_VARIABLES} variables, got {len(names)}")
    count = math.prod(len(each.values) for each in variables)
    if count > MOST_ELEMENTS:
        told = " x ".join(f"{len(each.values):,} of {each.name}" for each in variables)
        raise InvalidRequest(f"{told} are {count:,} jobs, of at most {MOST_ELEMENTS:,} in one submission")
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(each.values for each in variables))]


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of their marks."""
    return _marks(values).sub(lambda match: "{" + match[1] + "}" if match[1] else values[match[2]], text)


def marked(names: Iterable[str], texts: Iterable[str]) -> Iterator[str]:
    """The texts that have a mark of these names."""
    pattern = _marks(names)
    return (text for text in texts if any(match[2] for match in pattern.finditer(text)))


def strange_marks(names: Sequence[str], texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Words in braces that are no marks and nearly one: `hots` with the name `host` that it may mean."""
    # imported late: only who uses marks needs it
    import difflib

    for word in dict.fromkeys(word for text in texts for word in _BRACED.findall(text)):
        if word not in names and (nearest := difflib.get_close_matches(word, names, n=1, cutoff=0.7)):
            yield word, nearest[0]


def _marks(names: Iterable[str]) -> re.Pattern[str]:
    """Matches names in double braces, group 1, and marks, group 2."""
    either = "|".join(map(re.escape, names)) or "(?!)"
    # the module keeps what it has compiled lately, so this is cheap for each of many elements
    return re.compile(r"\{\{(" + either + r")\}\}|\{(" + either + r")\}")


# what stands for the node in names of locks
NODE_MARK: Final = "{node}"
_MARK: Final = re.compile(r"\{\w*\}")


@attrs.frozen
class BatchOptions:
    """On which nodes and for which values a command is to run, and how many at once."""

    # names, in the order given
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    # all nodes of the cluster
    is_each: bool = False
    # it runs for each combination of their values
    variables: tuple[BatchVariable, ...] = ()
    # number of jobs at once; None: all
    at_most: int | None = None
    # number of failures after which further nodes begin; None: any
    failures: int | None = None

    @property
    def has_nodes(self) -> bool:
        return bool(self.nodes or self.groups or self.is_each)

    @property
    def is_batch(self) -> bool:
        """Whether it may have more than one job."""
        return len(self.nodes) > 1 or bool(self.groups or self.is_each or self.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand in braces for values."""
        return (*(each.name for each in self.variables), *((NODE,) if self.has_nodes else ()))


def _each(text: str) -> BatchVariable:
    """`host=web1,web2`, `n=1..100`, `file=@LIST`."""
    name, equals, values = text.partition("=")
    if not equals:
        raise ValueError(f"'{text:.40}' has no values; write NAME=VALUE,VALUE or NAME=@FILE")
    return variable(name, _file_lines(values[1:])) if values.startswith("@") else read_variable(name, values)


EACH: Final = ReadType(_each, "NAME=VALUE,...")


def _file_lines(path: str) -> list[str]:
    """Raises: InvalidRequest: it cannot be read, or is not UTF-8."""
    try:
        if path != "-":
            return lines_of(Path(path).read_text(encoding="utf-8"))
        if sys.stdin is None:
            raise InvalidRequest("standard input is closed; name a file, or pipe the values in")
        return lines_of(sys.stdin.buffer.read().decode())
    except UnicodeDecodeError:
        raise InvalidRequest(f"'{path}' is not UTF-8 text") from None
    except OSError as error:
        raise InvalidRequest(f"cannot read '{path}': {error.strerror}") from None


def check_lock_marks(names: Iterable[str], batch: BatchOptions) -> None:
    """Raises: UsageError: a name of a lock has braces that stand for nothing."""
    known = [f"{{{name}}}" for name in batch.names]
    for name in names:
        mark = next((mark for mark in _MARK.findall(name) if mark not in known), None)
        if batch.names and mark is not None:
            stands = "stands for the node" if known == [NODE_MARK] else "have values"
            raise click.UsageError(f"'{mark}' in --lock {name} stands for nothing; {', '.join(known)} {stands}")
        if not batch.names and NODE_MARK in name:
            raise click.UsageError(
                f"'{NODE_MARK}' in --lock {name} is for commands on nodes; "
                "name them by --node, --node-group or --each-node"
            )


def check_shell_words(words: Iterable[str], batch: BatchOptions) -> None:
    """Raises: UsageError: a shell would read a value as its own words."""
    names = [each.name for each in batch.variables]
    if (word := next(marked(names, words), None)) is not None:
        name = next(name for name in names if f"{{{name}}}" in word)
        raise click.UsageError(
            f"with --shell no value is put into the command, as the shell would read it; write "
            f'"$GANTRY_EACH_{name}" for {{{name}}}'
        )


def _read_batch_options(
    node_names: Sequence[str],
    node_groups: Sequence[str],
    is_each_node: bool,
    each: Sequence[BatchVariable],
    at_most: int | None,
    is_stopping: bool,
    max_failures: int | None,
) -> BatchOptions:
    """Raises: UsageError: they do not fit together."""
    if is_each_node and (node_names or node_groups):
        other = "--node" if node_names else "--node-group"
        raise click.UsageError(f"--each-node takes all nodes already; leave it out, or {other}")
    if is_stopping and max_failures:
        raise click.UsageError(f"--stop-on-failure allows no failure, --max-failures {max_failures}; give one of them")
    if any(not name for name in (*node_names, *node_groups)):
        raise click.UsageError("--node and --node-group need a name; 'gnt-node list -o name,group' shows all")
    batch = BatchOptions(
        tuple(dict.fromkeys(node_names)),
        tuple(dict.fromkeys(node_groups)),
        is_each_node,
        tuple(each),
        at_most,
        0 if is_stopping else max_failures,
    )
    _check_batch(batch, is_stopping=is_stopping)
    return batch


def _check_batch(batch: BatchOptions, *, is_stopping: bool) -> None:
    """Raises: UsageError: what is for several jobs stands with one, or a name stands for two things."""
    if batch.has_nodes and any(each.name == NODE for each in batch.variables):
        raise click.UsageError(f"{NODE_MARK} stands for the nodes that are named; give --each another name")
    if not batch.is_batch and (batch.at_most is not None or batch.failures is not None):
        option = "--at-most" if batch.at_most is not None else "--stop-on-failure" if is_stopping else "--max-failures"
        raise click.UsageError(
            f"{option} is for several jobs; name nodes by --node, --node-group or --each-node, or values by --each"
        )


# `--node`, `--node-group`, `--each-node` and `--each`; `--at-most`, `--stop-on-failure` and `--max-failures`: a verb
# gets its `batch`
batch_options: Final = gathered(
    "batch",
    _read_batch_options,
    click.option(
        "--node",
        "node_names",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_node,
        help="Run it on this node, under its lock (shared); repeatable: one job a node.",
    ),
    click.option(
        "--node-group",
        "node_groups",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_group,
        help="Run it on each node of this group that is neither offline nor drained; repeatable.",
    ),
    click.option(
        "--each-node",
        "is_each_node",
        is_flag=True,
        help="Run it on each node of the cluster that is neither offline nor drained.",
    ),
    click.option(
        "--each",
        type=EACH,
        multiple=True,
        help="Run it for each value, which stands for {NAME} in the command, --env, --cwd, --lock, --name and "
        "--label: host=web1,web2, n=1..100, n=01..99..2, file=@LIST (a value a line; @- reads standard input); "
        "repeatable: each combination.",
    ),
    click.option("--at-most", type=click.IntRange(1), metavar="N", help="At most N of these jobs at once."),
    click.option(
        "--stop-on-failure",
        "is_stopping",
        is_flag=True,
        help="After a failure no further of these jobs begins; the rest is canceled.",
    ),
    click.option(
        "--max-failures",
        type=click.IntRange(0),
        metavar="N",
        help="The same, after more than N failures; 0 is --stop-on-failure.",
    ),
)
