"""Options that several verbs share."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import click

from common.errors import InvalidRequest
from common.objects.kinds import QueryKind
from common.words.typed import read_duration

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


def with_options(function: F, *options: Callable[[F], F]) -> F:
    """Add these options to a command; its help shows them in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def gathered(name: str, read: Callable[..., object], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Options that a verb gets as one value, its parameter `name`.

    Args: read: makes the value of those of the options, by their names.
    """

    def add(function: F) -> F:
        wanted: list[str] = []

        @functools.wraps(function)
        def with_value(**given: object) -> object:
            # several options may set one of them
            value = read(**{each: given.pop(each) for each in dict.fromkeys(wanted)})
            return function(**{name: value}, **given)

        others = _params(function)
        made = with_options(cast(F, with_value), *options)
        wanted += [str(param.name) for param in _params(made) if param.expose_value and param not in others]
        return made

    return add


def _params(function: Callable[..., object]) -> Sequence[click.Parameter]:
    """The options that click has noted so far for a command."""
    return [*getattr(function, "__click_params__", ())]


# Values that a function reads.


class ReadType(click.ParamType, Generic[T]):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A value that a function reads from text; what it does not take is told to the user.

    Args:
        read: raises ValueError or InvalidRequest with a text for the user.
        metavar: in the help; empty: the name, in capitals.
    """

    def __init__(self, read: Callable[[str], T], metavar: str = "", name: str = "value") -> None:
        self.name = name
        self._read = read
        self._metavar = metavar

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._metavar or None


# Durations as they are typed at the command line.


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Seconds, with an optional suffix: `90`, `1.5m`, `2h`, `7d`, `1w`."""

    name = "duration"

    def __init__(self, *, is_positive: bool = False) -> None:
        self._is_positive = is_positive

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = read_duration(value)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        if self._is_positive and seconds == 0:
            self.fail(f"'{value}' is too short; it must be longer than 0", param, ctx)
        return seconds


DURATION: Final = DurationType()
POSITIVE_DURATION: Final = DurationType(is_positive=True)


# Values of options of several programs: yes or no, and named values.
#
# Source: cli.md 1.


def _yes_no(text: str) -> bool:
    """`yes` or `no`, also `true` or `false`."""
    if text.lower() in ("yes", "true"):
        return True
    if text.lower() in ("no", "false"):
        return False
    raise ValueError(f"'{text}' is neither yes nor no")


def read_key_values(text: str) -> Mapping[str, str]:
    """`name=value,name=value`. Raises: ValueError."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise ValueError(f"'{name}' has no value; write name=value, several with commas")
    return {name: value for name, _, value in pairs}


YES_NO: Final = ReadType(_yes_no, "yes|no")
KEY_VALUES: Final = ReadType(read_key_values, "NAME=VALUE,...")


# Completion of the names of nodes, node groups and networks, for arguments and options.
#
# Source: cli.md 1.


if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of nodes."""
    return _complete(ctx, QueryKind.NODE, incomplete)


def complete_candidate(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of master candidates, by the files of this node: where they are needed there may be no master."""
    from cli.completion import complete_candidates

    with ctx.scope(cleanup=False):
        return complete_candidates(incomplete)


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of node groups."""
    return _complete(ctx, QueryKind.GROUP, incomplete)


def complete_network(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of networks."""
    return _complete(ctx, QueryKind.NETWORK, incomplete)


def _complete(ctx: click.Context, kind: QueryKind, incomplete: str) -> "list[CompletionItem]":
    from cli.completion import complete_names

    # no command runs while the shell asks, so its context is not yet the current one
    with ctx.scope(cleanup=False):
        return complete_names(kind, incomplete)
