"""Any text survives on its way through a man page; mandoc finds nothing wrong."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    Paragraph,
    Placeholder,
    Section,
)
from cli.manual.roff import roff
from tests.unit.cli.manual.rendering import needs_mandoc, shown, warnings

# what roff has a meaning for, and what it likes to change
AWKWARD = (
    ".SH x",
    "'br",
    "\\fB \\n(.x \\\\",
    "--a-b",
    "a\"b 'c' `d`",
    "^~",
    ".",
    "...",
    "x.  Y",
    "{host} [x] %d",
    "§ € – “”",
    "T} T{",
    "#!/bin/sh",
    "C:\\new",
)
characters = st.characters(categories=("L", "N", "P", "S"), max_codepoint=0xFFFF, exclude_characters="\ufffd")
words = st.lists(st.text(characters, min_size=1, max_size=8).filter(str.isprintable), min_size=1, max_size=5)
texts = st.one_of(st.sampled_from(AWKWARD), words.map(" ".join)).map(lambda text: " ".join(text.split()))


def page(*blocks: Block) -> str:
    return roff(ManualPage("gantry-x", 7, "a page", (Section("Words", blocks),)), "1.2", "2026-11-23")


def body(source: str) -> str:
    """The text of the section, each run of blanks as one."""
    text = shown(source, 1000)
    return " ".join(text.partition("WORDS\n")[2].rpartition("\n\n")[0].split())


@needs_mandoc
@settings(max_examples=20)
@given(st.lists(texts, min_size=1, max_size=30))
def test_any_text_of_a_paragraph_is_shown_as_it_is(given: list[str]) -> None:
    source = page(*(Paragraph((text,)) for text in given))

    assert body(source) == " ".join(given)


@needs_mandoc
@settings(max_examples=20)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=15))
def test_any_term_and_its_meaning_are_shown_as_they_are(given: list[tuple[str, str]]) -> None:
    rows = (Definition((Literal(term), " ", Placeholder("X")), (Paragraph((text,)),)) for term, text in given)

    assert body(page(Definitions(tuple(rows)))) == " ".join(f"{term} X {text}" for term, text in given)


@needs_mandoc
@settings(max_examples=20)
@given(st.lists(st.lists(texts, min_size=1, max_size=3).map("  ".join), min_size=1, max_size=10))
def test_lines_of_code_are_shown_with_their_blanks(given: list[str]) -> None:
    source = page(Code("\n".join(given)))

    lines = shown(source, 1000).partition("WORDS\n")[2].rpartition("\n\n")[0].strip("\n").splitlines()
    assert [line.removeprefix(" " * 7) for line in lines] == given


@needs_mandoc
def test_mandoc_finds_nothing_wrong_with_awkward_texts() -> None:
    blocks: list[Block] = [Paragraph((text,)) for text in AWKWARD]
    blocks += [Code("\n\n".join(AWKWARD))]
    blocks += [Definitions(tuple(Definition((text,), (Paragraph((text,)), Code(text))) for text in AWKWARD))]

    assert warnings(page(*blocks)) == ""
