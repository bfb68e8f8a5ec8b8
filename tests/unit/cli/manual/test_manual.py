"""The manual is whole: each program, verb, option and setting is in it, and mandoc finds nothing wrong."""

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

import attrs
import click
import pytest

import protocol.luxi
import protocol.wconfd
from cli.commands import CommandGroup
from cli.completion import PROGRAMS
from cli.manual.manual import all_pages, write_man, write_reference
from cli.manual.markdown import file_name
from cli.manual.page import Definitions, ManualPage, links_of, plain
from cli.manual.roff import roff
from common.opcodes.base import OpCode
from common.opcodes.registry import opcode_classes
from common.settings import CLASSES
from common.words.fields import FIELDS
from protocol.face import requests_of
from protocol.plans.jobs import COMMAND, TERMS
from tests.unit.cli.manual.rendering import needs_mandoc, shown

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def pages() -> Mapping[str, ManualPage]:
    """The pages by all their names."""
    return {f"{name}({page.volume})": page for page in all_pages() for name in (page.name, *page.aliases)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    write_man(folder, "1.2.3", "2026-11-23")
    return folder


def commands() -> Iterator[tuple[str, click.Command]]:
    """Each program and verb under each of its names."""
    for program in PROGRAMS:
        yield from below(program, import_module(f"cli.{program.removeprefix('gnt-')}.main").group)


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, CommandGroup):
        for verb, each in command.verbs.items():
            yield from below(f"{name}-{verb}", each.load())


def words(page: ManualPage) -> str:
    """All words of a page, those of terms and options in quotes."""
    return str(attrs.asdict(page))


def test_every_program_and_verb_has_a_page(pages: Mapping[str, ManualPage]) -> None:
    assert [name for name, _ in commands() if f"{name}(1)" not in pages] == []


def test_every_option_is_on_the_page_of_its_verb(pages: Mapping[str, ManualPage]) -> None:
    lost = [
        f"{name} {option.opts}"
        for name, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        if not all(f"'{each}'" in words(pages[f"{name}(1)"]) for each in option.opts)
    ]

    assert lost == []


def test_every_reference_leads_to_a_page(pages: Mapping[str, ManualPage]) -> None:
    lost = {f"{name} -> {link}" for name, page in pages.items() for link in links_of(page) if str(link) not in pages}

    assert lost == set()


def test_no_two_pages_have_one_name() -> None:
    names = [f"{name}({page.volume})" for page in all_pages() for name in (page.name, *page.aliases)]

    assert len(names) == len(set(names))


def test_every_setting_has_its_type_and_default(pages: Mapping[str, ManualPage]) -> None:
    (tables,) = (section for section in pages["gantry.toml(5)"].sections if section.title == "Tables")
    texts = {part.title: str(attrs.asdict(part)) for part in tables.parts}

    for table, kind in CLASSES.items():
        assert [key for key in attrs.fields_dict(kind) if f"'{key}'" not in texts[f"[{table}]"]] == []
    assert "A whole number, a port from 1 to 65535; default " in texts["[rapid]"]


def test_every_script_of_the_package_has_a_page(pages: Mapping[str, ManualPage]) -> None:
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]

    assert [name for name in scripts if f"{name}(1)" not in pages and f"{name}(8)" not in pages] == []


def test_every_opcode_has_all_its_parameters(pages: Mapping[str, ManualPage]) -> None:
    (chapter,) = (section for section in pages["gantry-opcodes(7)"].sections if section.title == "Opcodes")
    texts = {part.title: str(attrs.asdict(part)) for part in chapter.parts}
    own = {
        op_id: set(attrs.fields_dict(kind)) - set(attrs.fields_dict(OpCode)) for op_id, kind in opcode_classes().items()
    }

    assert [
        f"{op_id}.{name}" for op_id, names in own.items() for name in names if f"'{name}'" not in texts[op_id]
    ] == []


def test_every_call_of_luxid_and_wconfd_has_its_role_and_parameters(pages: Mapping[str, ManualPage]) -> None:
    for name, face in (("gantry-luxi(7)", protocol.luxi), ("gantry-wconfd-calls(7)", protocol.wconfd)):
        (chapter,) = (section for section in pages[name].sections if section.title == "Calls")
        texts = {part.title: str(attrs.asdict(part)) for part in chapter.parts}
        for kind in requests_of(face):
            assert "'Role '" in texts[kind.METHOD]
            names = attrs.fields_dict(cast(type[attrs.AttrsInstance], kind))
            assert [name for name in names if f"'{name}'" not in texts[kind.METHOD]] == []


def test_every_column_of_the_list_of_jobs_is_told(pages: Mapping[str, ManualPage]) -> None:
    text = words(pages["gantry-fields(7)"])

    assert [name for name in FIELDS if f"'{name}'" not in text] == []


def test_every_key_of_a_plan_is_told(pages: Mapping[str, ManualPage]) -> None:
    text = words(pages["gantry-plan(5)"])

    assert [key for key in (*TERMS, *COMMAND, "run", "shell", "ops", "after") if f"'{key}'" not in text] == []


def test_metrics_have_a_name_and_a_sentence_each(pages: Mapping[str, ManualPage]) -> None:
    (_, chapter, _) = pages["gantry-metrics(7)"].sections
    (listed,) = chapter.blocks
    assert isinstance(listed, Definitions)
    told = {plain(item.term): str(attrs.asdict(item)) for item in listed.items}

    assert len(told) == len(listed.items) > 50
    assert "Jobs that are not archived, by status. Gauge. Labels: " in told["gantry_jobs"]
    assert "Deaths that only the periodic check has found" in told["gantry_backstop_wakeups_total"]
    sentence = re.compile(r"""[A-Z1][^"']*[^"]*\. (Gauge|Counter|Histogram)\.""")
    assert [name for name, text in told.items() if not sentence.search(text)] == []


@needs_mandoc
def test_mandoc_finds_nothing_wrong_on_any_page(folder: Path) -> None:
    files = [path for path in sorted(folder.glob("man*/*")) if not path.read_text().startswith(".so ")]

    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, check=False)

    assert len(files) > 100
    assert done.stdout + done.stderr == ""


@needs_mandoc
def test_a_page_reads_well_on_80_columns(pages: Mapping[str, ManualPage]) -> None:
    text = shown(roff(pages["gnt-job-run(1)"], "1.2", "2026-11-23"))

    assert "NAME\n       gnt-job-run - run a command as a job\n" in text
    assert "SYNOPSIS\n       gnt-job run [OPTIONS] [--] COMMAND...\n\n       gantry job run [OPTIONS]" in text
    assert "       --timeout DURATION\n              End the command after this time: 90, 90s, 5m, 2h.\n" in text
    assert "       124    --wait-timeout is over and the job goes on" in text


def test_other_names_lead_to_the_page(folder: Path) -> None:
    assert (folder / "man1" / "gantry-job-run.1").read_text() == ".so man1/gnt-job-run.1\n"


def test_the_reference_has_a_file_for_each_page_and_lists_it_once(tmp_path: Path) -> None:
    write_reference(tmp_path)

    names = {file_name(page.link) for page in all_pages()}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "index.md"}
    listed = [line for path in tmp_path.iterdir() for line in toctrees(path.read_text())]
    assert sorted(f"{name}.md" for name in listed) == sorted(names)


def toctrees(text: str) -> Iterator[str]:
    for block in text.split("```{toctree}")[1:]:
        yield from (line for line in block.partition("```")[0].splitlines() if line and not line.startswith(":"))
