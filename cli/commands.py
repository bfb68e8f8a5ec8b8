"""The shape of every command: common options, verbs that are imported late, examples in the help.

A group knows each verb by its name, its module and one line of help. The module is imported when
the verb is used, which keeps the start of a program short.

Source: DESIGN section 9 (start of the command line).
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final

import attrs
import click
from click.core import ParameterSource

from cli.context import NO_COLOR, OF_MACHINE, OUTPUT, ROOT, remember
from cli.exitcodes import EVERYWHERE, WAITING, ExitCode, FailedToWait
from common.errors import Unavailable

# options of verbs that may wait, which say how
OF_WAITING: Final = ("--wait-timeout", "--raw", "--exit")


@attrs.frozen
class CommandVerb:
    """Where a command is defined, and its line in the list of commands."""

    # module:attribute
    target: str
    help: str

    def load(self) -> click.Command:
        module, _, name = self.target.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


class Command(click.Command):
    """A verb: its own options, then the common ones; examples stand below its help."""

    EXIT_CODES: ClassVar[Sequence[ExitCode]] = EVERYWHERE

    def __init__(
        self,
        name: str | None,
        *,
        callback: Callable[..., object],
        params: list[click.Parameter],
        help: str | None,
        examples: Sequence[str] = (),
        context_settings: dict[str, object] | None = None,
    ) -> None:
        super().__init__(name, context_settings, callback, params, help)
        self.examples = tuple(examples)
        self.params += common_options()
        _name_numbers(self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # click's parser does not say whose option lacks its value
            error.ctx = error.ctx or ctx
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        group = None if ctx.parent is None else ctx.parent.command
        handed_down = group.handed_down if isinstance(group, CommandGroup) else ()
        # the help option stays the last
        *own, help_option = super().get_params(ctx)
        return [*own, *handed_down, help_option]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Unavailable as error:
            # imported late: only an error needs it
            from cli.connection import with_next_step

            raise with_next_step(error) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


class MachineCommand(Command):
    """A verb about this machine and its daemons, whatever cluster $GANTRY_REMOTE names."""

    def invoke(self, ctx: click.Context) -> object:
        ctx.meta[OF_MACHINE] = True
        return super().invoke(ctx)


class WaitingCommand(Command):
    """A verb that under `--wait` ends with the exit code of the job's command; the help has the table of exit codes."""

    EXIT_CODES = WAITING

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # a copy: parsing removes what it has read
        own = args[: args.index("--")] if "--" in args else list(args)
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            if "--wait" in own and not isinstance(error, click.exceptions.NoArgsIsHelpError):
                raise FailedToWait(error) from error
            raise

    def invoke(self, ctx: click.Context) -> object:
        self._check_waits(ctx)
        try:
            return super().invoke(ctx)
        except Exception as error:
            if ctx.params.get("is_waiting") and not isinstance(error, click.exceptions.Exit):
                raise FailedToWait(error) from error
            raise

    def _check_waits(self, ctx: click.Context) -> None:
        """Raises: click.UsageError: an option has no effect, as nothing is waited for."""
        if ctx.params.get("is_waiting"):
            return
        for option in self.params:
            is_given = ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
            if is_given and option.opts[0] in OF_WAITING:
                raise click.UsageError(f"{option.opts[0]} has no effect without --wait; add that, or leave it out", ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes with --wait"):
            formatter.write_dl([(row.code, row.meaning) for row in WAITING])
        super().format_epilog(ctx, formatter)


def _version() -> click.Option:
    return click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_tell_version, help="Show the version."
    )


def _tell_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        # imported late: only this option needs it
        from common.system.program import release

        click.echo(f"{ctx.find_root().info_name} {release()}")
        ctx.exit()


class CommandGroup(click.Group):
    """Verbs under one program, each imported when it is used.

    Args:
        verbs: name -> where it is; listed in this order.
        aliases: alias -> verb; aliases are not listed.
        shared: makes options that may stand before the verb, or, hidden in its help, after it.
    """

    def __init__(
        self,
        name: str,
        verbs: Mapping[str, CommandVerb],
        *,
        help: str,
        aliases: Mapping[str, str] | None = None,
        examples: Sequence[str] = (),
        shared: Callable[[bool], list[click.Parameter]] | None = None,
    ) -> None:
        super().__init__(name, help=help, params=[_version(), *common_options(), *(shared(False) if shared else ())])
        # options of the verbs
        self.handed_down = shared(True) if shared else []
        self.verbs = verbs
        self.aliases = aliases or {}
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = self.verbs.get(self.aliases.get(cmd_name, cmd_name))
        return verb.load() if verb else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self.verbs or args[0] in self.aliases or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"no such command '{args[0]}'{self._advice(ctx, args[0])}", ctx)

    def _advice(self, ctx: click.Context, name: str) -> str:
        # imported late: only an error needs it
        import difflib

        nearest = difflib.get_close_matches(name, [*self.verbs, *self.aliases], n=1)
        if nearest:
            return f"; did you mean '{nearest[0]}'?"
        return f"; commands are {', '.join(self.verbs)}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in self.verbs.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


def _name_numbers(params: Iterable[click.Parameter]) -> None:
    """Let numbers within bounds be N in the help, where click names the class of their type."""
    for option in params:
        if isinstance(option.type, click.IntRange | click.FloatRange) and option.metavar is None:
            option.metavar = "N"


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class RootType(click.Path):
    """A folder; the empty name is refused, it does not mean the current folder."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("it is empty; name a folder, '.' is the one you are in", param, ctx)
        return super().convert(value, param, ctx)


def common_options() -> list[click.Parameter]:
    """`--root`, `--output` and `--no-color`; they may stand before or after the verb."""
    return [
        click.Option(
            ["--root"],
            metavar="DIR",
            type=RootType(file_okay=False, path_type=Path),
            help="The installation in this folder; else $GANTRY_ROOT, else the system's.",
            expose_value=False,
            callback=lambda ctx, _, value: remember(ctx.meta, ROOT, value),
        ),
        click.Option(
            ["--output"],
            type=click.Choice(["text", "json"]),
            help="Text for people (default), or JSON with the values of the wire.",
            expose_value=False,
            callback=lambda ctx, _, value: remember(ctx.meta, OUTPUT, value),
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            help="No colours, also on a terminal; so does $NO_COLOR.",
            expose_value=False,
            callback=lambda ctx, _, value: remember(ctx.meta, NO_COLOR, value or None),
        ),
    ]


def tag_verbs(kind: str) -> Mapping[str, CommandVerb]:
    """The verbs `list-tags`, `add-tags` and `remove-tags` of a program. Args: kind: such as "node"."""
    return {
        "list-tags": CommandVerb(f"cli.tags:list_{kind}_tags", "List the tags."),
        "add-tags": CommandVerb(f"cli.tags:add_{kind}_tags", "Add tags."),
        "remove-tags": CommandVerb(f"cli.tags:remove_{kind}_tags", "Remove tags."),
    }
