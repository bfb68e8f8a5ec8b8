"""The page of gantry.toml: each key with its type and default from the classes, and the words of the sample.

The sample is a file of the source tree, so this page is made there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    Page,
    PageLink,
    Paragraph,
    Section,
    paragraph,
)
from common.errors import NotFound
from common.settings import CLASSES
from common.settingsfile import SYSTEM_FILE
from common.settingwords.settingtables import ALL_READERS

SAMPLE: Final = Path(__file__).parents[3] / "deploy" / "gantry.toml.sample"
_TABLE: Final = re.compile(r"^\[(\w+)\]$", re.MULTILINE)
_KEY: Final = re.compile(r"^#(\w+) = (.*)$")
# values that no setting may have, by their types: a check says then what it allows
_REFUSED: Final[Mapping[object, object]] = {int: -1, float: -1.0, str: "\0", tuple[str, ...]: ("\0",)}
_EXAMPLE: Final = """\
[luxid]
max_running_jobs = 20
[access]
read = ["@staff"]
submit = ["alice", "@web"]
[rapid]
enabled = true"""


@attrs.frozen
class Explained:
    """A piece of the sample: keys with their defaults, and the words above them."""

    comment: tuple[str, ...]
    # key -> default as TOML
    keys: Mapping[str, str]


def settings_page() -> Page:
    return Page(
        "gantry.toml",
        5,
        "settings of Gantry",
        (
            Section("Synopsis", (Code(f"{SYSTEM_FILE}\nDIR/gantry.toml"),)),
            Section("Description", tuple(_description())),
            Section("Tables", parts=tuple(_tables())),
            Section("Examples", (Code(_EXAMPLE),)),
            Section("See also", (_see_also(),)),
        ),
    )


def _see_also() -> Paragraph:
    links = (("gantry", 7), ("gantry-up", 1), ("gantry-status", 1))
    return Paragraph(tuple(span for name, volume in links for span in (PageLink(name, volume), ", "))[:-1])


def _description() -> Iterator[Block]:
    yield paragraph(
        f"The daemons and the programs read `{SYSTEM_FILE}`; those of a private installation, with --root DIR or "
        "$GANTRY_ROOT, read `gantry.toml` in its folder. The form is TOML. Every key has a default, and the file may "
        "be empty or missing. An unknown key, or a value of a wrong type, is refused with its place, and the daemon "
        "does not start."
    )
    yield paragraph(
        "Daemons read the file when they start: restart them after a change. Running jobs go on. The programs read it "
        "at each start."
    )


def _tables() -> Iterator[Section]:
    for name, pieces in pieces_of(sample()).items():
        about, items = [piece for piece in pieces if not piece.keys], [piece for piece in pieces if piece.keys]
        words = [block for piece in about for block in blocks_of(piece.comment)]
        rows = tuple(_row(name, piece) for piece in items)
        yield Section(f"[{name}]", (*words, Definitions(rows)))


def sample() -> str:
    """The text of the sample. Raises: NotFound: there is no source tree."""
    try:
        return SAMPLE.read_text()
    except FileNotFoundError:
        raise NotFound(
            f"no file '{SAMPLE}'; this page is made in the source tree, and installed as a man page"
        ) from None


def pieces_of(text: str) -> Mapping[str, Sequence[Explained]]:
    """The pieces of each table of a sample."""
    _, *parts = _TABLE.split(text)
    return {name: list(_pieces(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _pieces(body: str) -> Iterator[Explained]:
    for piece in body.strip("\n").split("\n\n"):
        lines = piece.strip("\n").splitlines()
        keys = {found[1]: found[2] for line in lines if (found := _KEY.match(line))}
        comment = tuple(line.removeprefix("#").removeprefix(" ") for line in lines if not _KEY.match(line))
        if comment or keys:
            yield Explained(comment, keys)


def blocks_of(comment: Sequence[str]) -> tuple[Block, ...]:
    """The words of a comment: paragraphs, and indented lines as they stand."""
    blocks: list[Block] = []
    words: list[str] = []
    code: list[str] = []
    for line in (*comment, ""):
        is_code = line.startswith("  ")
        if words and (is_code or not line):
            blocks.append(paragraph(" ".join(words)))
            words = []
        if code and line and not is_code:
            blocks.append(_code(code))
            code = []
        if is_code or (code and not line):
            code.append(line)
        elif line:
            words.append(line)
    return (*blocks, _code(code)) if code else tuple(blocks)


def _code(lines: Sequence[str]) -> Code:
    return Code("\n".join(line.removeprefix("  ") for line in lines).strip("\n"))


def _row(table: str, piece: Explained) -> Definition:
    term = [span for key in piece.keys for span in (Literal(key), ", ")][:-1]
    names = len(piece.keys) > 1
    facts = (
        Paragraph((*((Literal(key), ": ") if names else ()), *_fact(table, key, given)))
        for key, given in piece.keys.items()
    )
    return Definition(tuple(term), (*blocks_of(piece.comment), *facts))


def _fact(table: str, key: str, default: str) -> tuple[str | Literal, ...]:
    return (f"{kind_of(table, key)}; default ".capitalize(), Literal(default))


def kind_of(table: str, key: str) -> str:
    """What a key takes, in words: `a whole number, at least 0`."""
    if table == "paths":
        return "an absolute path"
    field = attrs.fields_dict(CLASSES[table])[key]
    kind = ALL_READERS[field.type][0]
    limit = _limit(field)
    return f"{kind}, {limit}" if limit else kind


def _limit(field: "attrs.Attribute[object]") -> str:
    refused = _REFUSED.get(field.type)
    if field.validator is None or refused is None:
        return ""
    try:
        field.validator(None, field, refused)
    except ValueError as error:
        return str(error).rpartition(" must be ")[2] if " must be " in str(error) else ""
    return ""
