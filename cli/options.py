"""Options that several verbs share."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import click

from common.errors import GantryError, InvalidRequest
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


# Completion in the shell.


if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
# a value, and its description
Offer = tuple[str, str]
# failures that contribute no values; options that exclude each other are told when the command runs
_NO_VALUES: Final = (GantryError, OSError, click.ClickException)
_MOST_OFFERS: Final = 200


def completed(values: Callable[[str], Iterable[Offer]]) -> Complete:
    """The completion by these values, as far as they begin with what was typed.

    Args: values: gets what was typed; what it cannot find out contributes none.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        # no command runs while the shell asks, so its context is not yet the current one
        with ctx.scope(cleanup=False):
            try:
                found = list(
                    islice((each for each in values(incomplete) if each[0].startswith(incomplete)), _MOST_OFFERS)
                )
            except _NO_VALUES:
                return []
        return [
            CompletionItem(value, help=text or None, type="nospace" if value.endswith(("=", ".", "/")) else "plain")
            for value, text in found
        ]

    return complete


def _complete_by(source: str) -> Complete:
    """The completion by what the daemons know. Args: source: key of `cli.completion.SOURCES`."""

    def values(incomplete: str) -> Iterable[Offer]:
        # imported late: only a shell that asks needs it
        from cli.completion import SOURCES

        return SOURCES[source](incomplete)

    return completed(values)


complete_candidate: Final = _complete_by("candidates")
complete_group: Final = _complete_by("groups")
complete_job: Final = _complete_by("jobs")
complete_lock: Final = _complete_by("locks")
complete_network: Final = _complete_by("networks")
complete_node: Final = _complete_by("nodes")
complete_resource: Final = _complete_by("resources")
complete_rule: Final = _complete_by("rules")
complete_schedule: Final = _complete_by("schedules")


# Values that a function reads.


class ReadType(click.ParamType, Generic[T]):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A value that a function reads from text; what it does not take is told to the user.

    Args:
        read: raises ValueError or InvalidRequest with a text for the user.
        metavar: in the help; empty: the name, in capitals.
        complete: of the values in the shell.
    """

    def __init__(
        self, read: Callable[[str], T], metavar: str = "", name: str = "value", complete: Complete | None = None
    ) -> None:
        self.name = name
        self._read = read
        self._metavar = metavar
        self._complete = complete

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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        return self._complete(ctx, param, incomplete) if self._complete else []


def _positive_duration(text: str) -> float:
    seconds = read_duration(text)
    if seconds == 0:
        raise ValueError(f"'{text}' is too short; it must be longer than 0")
    return seconds


# seconds, with an optional suffix: `90`, `1.5m`, `2h`, `7d`, `1w`
DURATION: Final = ReadType(read_duration, name="duration")
POSITIVE_DURATION: Final = ReadType(_positive_duration, name="duration")


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


def read_words(text: str) -> list[str]:
    """`a,b`; empty ones do not count."""
    return [word for word in text.split(",") if word]


def read_key_values(text: str) -> Mapping[str, str]:
    """`name=value,name=value`. Raises: ValueError."""
    pairs = [part.partition("=") for part in read_words(text)]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise ValueError(f"'{name:.40}' has no value; write name=value, several with commas")
    return {name: value for name, _, value in pairs}


def host_and_port(text: str, usual: int, form: str) -> tuple[str, int]:
    """Host and port; an IPv6 address with a port stands in brackets.

    Args: usual: the port, if none is named. form: what is expected, as `HOST[:PORT]`.
    Raises: InvalidRequest.
    """
    has_port = text.count(":") == 1 or (text.startswith("[") and "]:" in text)
    host, _, port = text.rpartition(":") if has_port else (text, "", str(usual))
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise InvalidRequest(f"'{text}' is not {form}; write a name or an address, as in 10.0.0.1:{usual}")
    return host.strip("[]"), int(port)


YES_NO: Final = ReadType(_yes_no, "yes|no")
WORDS: Final = ReadType(read_words, "NAME,...")
KEY_VALUES: Final = ReadType(read_key_values, "NAME=VALUE,...")
