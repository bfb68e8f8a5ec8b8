"""What the code cites is in the repository, with the section that is named."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("cli", "common", "daemons", "deploy", "protocol", "tests")
_DOCUMENTS: Final = {"DESIGN": "docs/design.md"} | {
    path.name: f"docs/reference/{path.name}" for path in (ROOT / "docs" / "reference").glob("*.md")
}
_SECTION: Final = r"(?<!\w)(?:\d{1,2}(?:\.\d{1,2})?|[a-j])(?![\w-]|\.\d)"
_CITATION: Final = re.compile(
    rf"\b(DESIGN|\w+\.md),? (?:sections? )?({_SECTION}(?:(?:, and |, | and | to | or ){_SECTION})*)"
)
_HEADING: Final = re.compile(r"^#+ ((?:\d+(?:\.\d+)?|[a-j])(?=[. ]))", re.MULTILINE)
# rules of others, which no reader of this repository has
_FOREIGN: Final = re.compile(r"\b(?:STYLE|CHOICES|ROOMS)\b(?! =)")


def texts() -> Iterator[tuple[str, str]]:
    """Each text of ours with its path."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in (".py", ".toml", ".sample", ".md")
                and "data" not in path.parts
                and path != Path(__file__)
            ):
                yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


@cache
def sections(document: str) -> frozenset[str]:
    return frozenset(_HEADING.findall((ROOT / document).read_text()))


def missing(text: str, documents: Mapping[str, str]) -> list[str]:
    """The citations of sections that are not there."""
    found = []
    for name, cited in _CITATION.findall(text):
        if name in documents:
            known = sections(documents[name])
            found += [f"{name} {section}" for section in re.findall(_SECTION, cited) if section not in known]
        elif (ROOT / name).exists() or name == "SKILL.md":
            continue
        else:
            found.append(name)
    return found


def test_every_cited_document_and_section_is_there() -> None:
    lost = [f"{path}: {each}" for path, text in texts() for each in missing(text, _DOCUMENTS)]

    assert lost == []


def test_nothing_is_cited_that_is_not_in_the_repository() -> None:
    lost = [path for path, text in texts() if path.endswith(".py") and _FOREIGN.search(text)]

    assert lost == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESIGN sections 3 and 14; wconfd.md 6.3, 7.4.", []),
        ("DESIGN section 99", ["DESIGN 99"]),
        ("everyday.md i, j; lease.md sections 7 and 8.9", ["lease.md 8.9"]),
        ("nothing.md 3", ["nothing.md"]),
    ],
)
def test_a_citation_is_read_with_all_its_sections(text: str, expected: list[str]) -> None:
    assert missing(text, _DOCUMENTS) == expected
