"""Pages of the daemons, from the parsers of their command lines."""

from collections.abc import Iterator, Mapping
from typing import Final

from cli.manual.page import (
    FILES,
    Block,
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
    paragraph,
    see_also,
)
from common.daemons import DAEMONS, Daemon, NodeKind
from common.reference import DaemonFacts, ProgramFacts, ProgramOption
from common.settingsfile import SYSTEM_PATHS
from common.system.program import NOT_MASTER

_PLACES: Final[Mapping[NodeKind, str]] = {
    NodeKind.MASTER: "the master",
    NodeKind.CANDIDATES: "the master and the candidates",
    NodeKind.ALL: "all nodes",
}
_SIGNALS: Final[Mapping[str, str]] = {
    "SIGTERM, SIGINT": "It ends; calls under way are finished. Jobs run on.",
    "SIGHUP": "It opens its log again, after a rotation.",
}
_CODES: Final[Mapping[str, str]] = {
    "0": "It was ended by a signal.",
    "1": "It cannot start, or cannot go on; the reason is on standard error and in the log.",
    "2": "The command line is wrong.",
    str(NOT_MASTER): "This node is not the master; that is no failure.",
}
# programs that are for people, with the volume of programs
_FOR_PEOPLE: Final = frozenset({"gantry-simulate"})


def daemon_pages(facts: DaemonFacts) -> tuple[ManualPage, ...]:
    rows = {f"gantry-{daemon.name}": daemon for daemon in DAEMONS}
    return tuple(_page(program, rows.get(program.name)) for program in facts.programs)


def _page(program: ProgramFacts, daemon: Daemon | None) -> ManualPage:
    sections = [
        Section("Synopsis", (_synopsis(program),)),
        Section("Description", tuple(_description(program, daemon))),
        Section("Options", (_options(program),)),
    ]
    if daemon is not None:
        sections += [
            Section("Signals", (Definitions(described(_SIGNALS)),)),
            Section("Exit status", (Definitions(described(_CODES)),)),
            Section("Files", (Definitions(_files(daemon)),)),
        ]
    else:
        sections.append(Section("Files", (FILES,)))
    sections.append(see_also("gantry(7), gantry.toml(5), gantry-status(1), gantry-logs(1)"))
    volume = 1 if program.name in _FOR_PEOPLE else 8
    about = program.about.rstrip(".")
    return ManualPage(program.name, volume, about, tuple(sections))


def _synopsis(program: ProgramFacts) -> Block:
    arguments: list[str | Placeholder] = [" ", Placeholder("[OPTIONS]")]
    for option in program.options:
        if not option.names:
            arguments += [" ", Placeholder(f"[{option.value}]")]
    return Paragraph((Literal(program.name), *arguments))


def _description(program: ProgramFacts, daemon: Daemon | None) -> Iterator[Block]:
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


def _options(program: ProgramFacts) -> Definitions:
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
