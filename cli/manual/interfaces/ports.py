"""Reference of the ports and sockets at which the daemons listen.

The numbers are the defaults of the settings, the sockets those of the table of daemons. Who needs to reach a port is
told by the table in deploy/systemd/PORTS.md. That is a file of the source tree, so this page is made there.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.manual.page import Block, Code, Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph
from common.daemons import DAEMONS
from common.errors import NotFound
from common.settings import CLASSES
from common.settingsfile import SYSTEM_PATHS

PORTS: Final = Path(__file__).parents[3] / "deploy" / "systemd" / "PORTS.md"
_KEY: Final = re.compile(r"`\[(?P<table>\w+)\] (?P<key>\w+)`")
_CELLS: Final = 5
_ABOUT: Final = (
    "The daemons of one machine talk to each other and to the programs over Unix sockets. They listen at ports only "
    "for other machines, and for users of the web. Each port is a key of gantry.toml(5), the same on all nodes of a "
    "cluster."
)
_SOCKETS: Final = (
    "The kernel tells a daemon who connects, and the roles of `[access]` say what they may do: gantry.toml(5)."
)


def ports_page() -> Page:
    rows, rest = _read()
    links = (PageLink("gantry.toml", 5), ", ", PageLink("gantry-files", 5), ", ", PageLink("gantry", 7))
    return Page(
        "gantry-ports",
        7,
        "ports and sockets at which the daemons listen",
        (
            Section("Description", (paragraph(_ABOUT),)),
            Section("Ports", (Definitions(tuple(map(_port, rows))), *rest)),
            Section("Sockets", (paragraph(_SOCKETS), Definitions(tuple(_sockets())))),
            Section("See also", (Paragraph(links),)),
        ),
    )


def _read() -> tuple[list[list[str]], tuple[Block, ...]]:
    """The rows of the table, and what stands behind it. Raises: NotFound: there is no source tree."""
    try:
        lines = PORTS.read_text().splitlines()
    except FileNotFoundError:
        raise NotFound(
            f"no file '{PORTS}'; this page is made in the source tree, and installed as a man page"
        ) from None
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    last = max(number for number, line in enumerate(lines) if line.startswith("| "))
    # the first row has the titles
    return [row for row in rows[1:] if len(row) == _CELLS], tuple(_blocks("\n".join(lines[last + 1 :])))


def _blocks(text: str) -> Iterator[Block]:
    for indented, group in _groups(text):
        yield Code(group) if indented else paragraph(group)


def _groups(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces between empty lines, and whether they stand by indentation."""
    for piece in text.strip("\n").split("\n\n"):
        lines = piece.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield True, "\n".join(line[4:] for line in lines)
        else:
            yield False, " ".join(lines)


def _port(row: list[str]) -> Definition:
    number, daemon, where, who, protected = row
    if found := _KEY.search(daemon):
        # the number is the one that the daemons use
        default = getattr(CLASSES[found["table"]](), found["key"])
        number = f"{default} {number.split()[-1]}"
    return Definition(
        (Literal(number),),
        (
            paragraph(f"{daemon[:1].upper()}{daemon[1:]}; on {where}."),
            paragraph(f"Needs to be reached by: {who}."),
            paragraph(f"Protected by: {protected}."),
        ),
    )


def _sockets() -> Iterator[Definition]:
    for daemon in DAEMONS:
        if daemon.socket is not None:
            yield Definition(
                (Literal(str(SYSTEM_PATHS.socket(daemon.name))),), (paragraph(f"`gantry-{daemon.name}`."),)
            )
