"""Pages of programs and their verbs, from the commands that also make `--help`, and of daemons.

A verb that is reached under several names, as `gnt-job run` and `gantry job run`, has one page, under the first of
them; the others are its aliases.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final

import attrs
import click

from cli.commands import Command, CommandGroup, common_options
from cli.completion import PROGRAMS
from cli.exitcodes import EVERYWHERE, MOVING, WAITING, ExitCode
from cli.manual.page import (
    ENVIRONMENT,
    FILES,
    REMOTE_ENVIRONMENT,
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    PageLink,
    Paragraph,
    Placeholder,
    Section,
    Text,
    capital,
    described,
    linked,
    marked,
    paragraph,
    related,
    see_also,
)
from cli.manual.roff import CODE_WIDTH
from common.daemons import DAEMONS, Daemon, NodeKind
from common.reference import DaemonFacts, ProgramFacts, ProgramOption
from common.settingsfile import SYSTEM_PATHS
from common.system.program import NOT_MASTER

# The page of exit codes, from the table of the programs.


def exit_codes(rows: Sequence[ExitCode]) -> Definitions:
    return Definitions(described({row.code: row.meaning for row in rows}))


def exit_codes_page() -> ManualPage:
    return ManualPage(
        "gantry-exit-codes",
        7,
        "exit codes of all programs",
        (
            Section("Description", (paragraph(_ABOUT),)),
            Section("All programs", (exit_codes(EVERYWHERE),)),
            Section("gnt-job run --wait and gnt-job submit --wait", (paragraph(_WAITING), exit_codes(WAITING))),
            Section("gantry cluster switchover and takeover", (exit_codes(MOVING),)),
            Section("gantry status --check", (paragraph(_CHECK),)),
            see_also("gantry(7), gnt-job-run(1)"),
        ),
    )


_ABOUT = (
    "Each program tells by its exit code how it ended, and on standard error why. The codes of the first table are "
    "those of every verb; some verbs have tables of their own."
)
_WAITING = (
    "With `--wait` the program ends as the command of its job. Codes of ours lie where timeout(1) has its own, so that "
    "none can be taken for the command's."
)
_CHECK = (
    "As monitors want it: 0 if all is well, 1 for a warning, 2 if something is critical, 3 if it is not known. "
    "`[health]` in gantry.toml(5) says where a warning begins."
)


# Long commands in several lines, as a shell reads them.


# words with what is quoted in them
_WORDS: Final = re.compile(r"""(?:[^\s'"]|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_COMMENT: Final = re.compile(r"\s{2,}# ")
_INDENT: Final = "    "


def folded(command: str, width: int) -> str:
    """The command with a backslash at the end of each line but the last; only words longer than `width` stick out.

    A comment behind the command goes above it.
    """
    if len(command) <= width:
        return command
    command, _, comment = _COMMENT.sub("\0", command, count=1).partition("\0")
    lines = [""]
    for word in _WORDS.findall(command):
        line = f"{lines[-1]} {word}" if lines[-1].strip() else f"{lines[-1]}{word}"
        if len(line) > width - 2 and lines[-1].strip():
            lines.append(f"{_INDENT}{word}")
        else:
            lines[-1] = line
    text = " \\\n".join(lines)
    return f"# {comment}\n{text}" if comment else text


_COMMON: Final = frozenset(("--help", "--version", *(name for option in common_options() for name in option.opts)))
_CODES: Final = PageLink("gantry-exit-codes", 7)


@attrs.frozen
class CommandPage:
    """A command, with the words that lead to it."""

    # gnt-job, run
    words: tuple[str, ...]
    command: click.Command
    context: click.Context
    # its line in the list of its group's verbs; of a program its help
    line: str
    # the same, reached by other words
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        return "-".join(self.words)

    @property
    def link(self) -> PageLink:
        return PageLink(self.name, 1)


@cache
def places() -> tuple[CommandPage, ...]:
    """All programs and verbs, each once, with programs of Ganeti's names first."""
    found: dict[int, CommandPage] = {}
    for name in sorted(PROGRAMS, key=lambda each: each == "gantry"):
        group = import_module(f"cli.{name.removeprefix('gnt-')}.main").group
        for place in _below((name,), group, None, str(group.help)):
            known = found.get(id(place.command))
            found[id(place.command)] = (
                place if known is None else attrs.evolve(known, others=(*known.others, place.words))
            )
    return tuple(found.values())


def _below(
    words: tuple[str, ...], command: click.Command, parent: click.Context | None, line: str
) -> Iterator[CommandPage]:
    context = click.Context(command, parent, info_name=words[-1] if parent else words[0])
    yield CommandPage(words, command, context, line)
    if isinstance(command, CommandGroup):
        for name, verb in command.verbs.items():
            yield from _below((*words, name), verb.load(), context, verb.help)


def program_pages() -> tuple[ManualPage, ...]:
    return tuple(map(_page, places()))


def children_of(page: ManualPage) -> Sequence[PageLink]:
    """The pages of a program's verbs, below its own."""
    if page.volume != 1:
        return []
    return [each.link for each in places() if each.words[:-1] and "-".join(each.words[:-1]) == page.name]


def _page(place: CommandPage) -> ManualPage:
    return ManualPage(
        place.name,
        1,
        place.line.rstrip("."),
        tuple(section for section in _sections(place) if section.blocks or section.parts),
        aliases=tuple("-".join(words) for words in place.others),
    )


def _sections(place: CommandPage) -> Iterator[Section]:
    yield Section("Synopsis", tuple(_synopsis(place)))
    yield Section("Description", tuple(_description(place)))
    if isinstance(place.command, CommandGroup):
        yield Section("Commands", (_commands(place, place.command),))
    own, shared = _options(place)
    yield Section("Options", own, parts=(Section("Common options", shared),) if shared else ())
    yield _exit_status(place)
    yield Section("Environment", tuple(_environment(place)))
    if len(place.words) == 1:
        yield Section("Files", (FILES,))
    examples = getattr(place.command, "examples", ())
    yield Section("Examples", (Code("\n".join(folded(each, CODE_WIDTH - 4) for each in examples)),) if examples else ())
    yield Section("See also", (_see_also(place),))


def _synopsis(place: CommandPage) -> Iterator[Block]:
    pieces = place.command.collect_usage_pieces(place.context)
    for words in (place.words, *place.others):
        yield _one_synopsis(words, pieces)


def _one_synopsis(words: Sequence[str], pieces: Sequence[str]) -> Block:
    return Paragraph((Literal(" ".join(words)), *(span for piece in pieces for span in (" ", Placeholder(piece)))))


def _description(place: CommandPage) -> Iterator[Block]:
    variables = _variables(place)
    for part in inspect.cleandoc(place.command.help or "").split("\n\n"):
        if part.startswith("\b"):
            yield Code(part.removeprefix("\b\n"))
        elif part.strip():
            yield paragraph(part, variables)


def _variables(place: CommandPage) -> frozenset[str]:
    """Words in capitals that stand for arguments."""
    own = [part.metavar or part.name or "" for part in place.command.params if isinstance(part, click.Argument)]
    return frozenset(word.strip("[].|-") for name in own for word in name.upper().split() if word.strip("[].|-"))


def _commands(place: CommandPage, group: CommandGroup) -> Definitions:
    pages = {id(each.command): each.link for each in places()}
    rows = []
    for name, verb in group.verbs.items():
        link = pages[id(verb.load())]
        rows.append(Definition((Literal(name),), (Paragraph((*marked(verb.help), " ", link)),)))
    return Definitions(tuple(rows))


def _options(place: CommandPage) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """Those of the command, and those that all commands have."""
    own: list[Definition] = []
    shared: list[Definition] = []
    for option in place.command.get_params(place.context):
        record = option.get_help_record(place.context) if isinstance(option, click.Option) else None
        if record is not None:
            (shared if not _COMMON.isdisjoint(option.opts) else own).append(_option(*record))
    return (_rows(own), _rows(shared))


def _rows(items: Sequence[Definition]) -> tuple[Block, ...]:
    return (Definitions(tuple(items)),) if items else ()


def _option(names: str, text: str) -> Definition:
    """Args: names: `-o, --output FIELDS`."""
    spans: list[Literal | Placeholder | str] = []
    for word in names.split(" "):
        if spans:
            spans.append(" ")
        comma = "," if word.endswith(",") and word.startswith("-") else ""
        spans.append(Literal(word.removesuffix(comma)) if word.startswith("-") else Placeholder(word))
        if comma:
            spans.append(comma)
    return Definition(tuple(spans), (paragraph(text.replace("  [", " [")),))


def _exit_status(place: CommandPage) -> Section:
    rows = place.command.EXIT_CODES if isinstance(place.command, Command) else EVERYWHERE
    if rows is EVERYWHERE:
        text = marked("0 if all went well, else a number that tells what went wrong; ")
        return Section("Exit status", (Paragraph((*text, "see ", _CODES, ".")),))
    title = "With `--wait`:" if rows[0].code != "0" else ""
    blocks: list[Block] = [paragraph(title)] if title else []
    return Section("Exit status", (*blocks, exit_codes(rows), Paragraph(("All codes: ", _CODES, "."))))


def _environment(place: CommandPage) -> Iterator[Block]:
    if len(place.words) == 1:
        is_remote = isinstance(place.command, CommandGroup) and bool(place.command.handed_down)
        yield Definitions((*ENVIRONMENT, *(REMOTE_ENVIRONMENT if is_remote else ())))


def _see_also(place: CommandPage) -> Block:
    above: list[PageLink] = [PageLink("-".join(place.words[:-1]), 1)] if place.words[1:] else []
    metavars = {
        str(option.metavar or getattr(option.type, "name", ""))
        for option in place.command.params
        if isinstance(option, click.Option)
    }
    return linked(dict.fromkeys([*above, *related(place.name, metavars)]))


# Pages of the daemons, from the parsers of their command lines.


_PLACES: Final[Mapping[NodeKind, str]] = {
    NodeKind.MASTER: "the master",
    NodeKind.CANDIDATES: "the master and the candidates",
    NodeKind.ALL: "all nodes",
}
_SIGNALS: Final[Mapping[str, str]] = {
    "SIGTERM, SIGINT": "It ends; calls under way are finished. Jobs run on.",
    "SIGHUP": "It opens its log again, after a rotation.",
}
_DAEMON_CODES: Final[Mapping[str, str]] = {
    "0": "It was ended by a signal.",
    "1": "It cannot start, or cannot go on; the reason is on standard error and in the log.",
    "2": "The command line is wrong.",
    str(NOT_MASTER): "This node is not the master; that is no failure.",
}
# programs that are for people, with the volume of programs
_FOR_PEOPLE: Final = frozenset({"gantry-simulate"})


def daemon_pages(facts: DaemonFacts) -> tuple[ManualPage, ...]:
    rows = {f"gantry-{daemon.name}": daemon for daemon in DAEMONS}
    return tuple(_daemon_page(program, rows.get(program.name)) for program in facts.programs)


def _daemon_page(program: ProgramFacts, daemon: Daemon | None) -> ManualPage:
    sections = [
        Section("Synopsis", (_daemon_synopsis(program),)),
        Section("Description", tuple(_daemon_description(program, daemon))),
        Section("Options", (_daemon_options(program),)),
    ]
    if daemon is not None:
        sections += [
            Section("Signals", (Definitions(described(_SIGNALS)),)),
            Section("Exit status", (Definitions(described(_DAEMON_CODES)),)),
            Section("Files", (Definitions(_files(daemon)),)),
        ]
    else:
        sections.append(Section("Files", (FILES,)))
    sections.append(see_also("gantry(7), gantry.toml(5), gantry-status(1), gantry-logs(1)"))
    volume = 1 if program.name in _FOR_PEOPLE else 8
    about = program.about.rstrip(".")
    return ManualPage(program.name, volume, about, tuple(sections))


def _daemon_synopsis(program: ProgramFacts) -> Block:
    arguments: list[str | Placeholder] = [" ", Placeholder("[OPTIONS]")]
    for option in program.options:
        if not option.names:
            arguments += [" ", Placeholder(f"[{option.value}]")]
    return Paragraph((Literal(program.name), *arguments))


def _daemon_description(program: ProgramFacts, daemon: Daemon | None) -> Iterator[Block]:
    yield paragraph(program.about)
    if daemon is None:
        return
    yield Paragraph(tuple(_runs_on(daemon)))
    if daemon.started_after:
        before = linked(PageLink(f"gantry-{name}", 8) for name in daemon.started_after)
        yield Paragraph(("It is started after ", *before.text, "."))
    yield paragraph(
        "It stays in the foreground, tells systemd when it is ready, and may be killed and started again at any time: "
        "running jobs go on."
    )


def _runs_on(daemon: Daemon) -> Iterator[str | Literal | PageLink]:
    yield f"It runs on {_PLACES[daemon.runs_on]}"
    yield " if the settings want it." if daemon.feature else "."
    if daemon.settings:
        yield " Its settings are in "
        yield Literal(f"[{daemon.settings}]")
        yield " of "
        yield PageLink("gantry.toml", 5)
        yield "."


def _daemon_options(program: ProgramFacts) -> Definitions:
    return Definitions(tuple(Definition(_term(option), (paragraph(_help(option)),)) for option in program.options))


def _help(option: ProgramOption) -> str:
    text = option.text.replace("%(prog)s", "the program")
    text = "show this help message and exit" if "--help" in option.names else text
    text = "show the version and exit" if "--version" in option.names else text
    return f"{capital(text)}." if text else "As its name says."


def _term(option: ProgramOption) -> Text:
    names: Text = tuple(span for name in option.names for span in (Literal(name), ", "))[:-1]
    if not option.value:
        return names
    return (*names, " ", Placeholder(option.value)) if names else (Placeholder(option.value),)


def _files(daemon: Daemon) -> tuple[Definition, ...]:
    paths = SYSTEM_PATHS
    rows = {
        str(paths.run / daemon.pid_file): "Its process.",
        str(paths.log / daemon.log_file): "Its log.",
    }
    if daemon.socket:
        rows[str(paths.sockets / daemon.socket)] = "Its socket."
    if daemon.user:
        own = f"{paths.run}-{daemon.name}, {paths.log}-{daemon.name}"
        rows[own] = f"All these, where the package runs it as the user {daemon.user}."
    return described(rows)
