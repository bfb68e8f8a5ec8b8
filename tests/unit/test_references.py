"""Every module, file and name of ours that a text of the repository names is there.

Read are pages (`*.md`), other texts, and comments, docstrings and all other string constants of the code. A path may
leave out its first folders: `luxid/scheduler.py`.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = ("cli", "common", "daemons", "protocol")
FOLDERS: Final = (*PROGRAMS, "deploy", "docs", "tests")
# named on purpose though not there: examples of the guide and of CONTRIBUTING, sources of others, a made-up log
EXCEPTIONS: Final = re.compile(
    r"gantry-seal/|\w*/?(?:\w+/)*(?:test_)?frobd?(?:/|\.py)|\w+(?:/\w+)*/FAMILY\.py"
    r"|lib/(?:cli|cli_opts|confd/client)\.py|exec\.py|dcs/etcd3?\.py|daemons\.test$"
)
# text inside an f-string is a token of its own from Python 3.12 on
_WORDS: Final = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_PATH: Final = re.compile(r"(?<![\w/.<{*%-])(?:[\w-]+/)+[\w-]+\.py\b")
_FILE: Final = re.compile(r"`([a-z]\w*\.py)`")
_OTHERS: Final = {".conf", ".j2", ".sample", ".service", ".sh", ".toml", ".txt", ".yml"}
_NAMED: Final = re.compile(r"`((?:[\w-]+/)*[a-z]\w*\.py)`")
_FOLDER: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)}|\w+)(?:/[a-z][\w-]*)+/)`")
_DOTTED: Final = re.compile(rf"(?<![\w/.@-])(?:{'|'.join(PROGRAMS)}|tests)(?:\.(?!md\b)[A-Za-z_]\w*)+(?![\w/(-])")
_CORE: Final = re.compile(r"`(core(?:\.\w+)+)")
_IMPORT: Final = re.compile(
    rf"^\s*from ((?:{'|'.join(PROGRAMS)}|tests)(?:\.\w+)*) import ((?:\w+(?: as \w+)?(?:, )?)+)", re.MULTILINE
)


@cache
def files() -> tuple[frozenset[str], frozenset[str]]:
    """All files and all folders of the repository, each also without its first folders."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    paths += [*ROOT.glob("*.*"), *(ROOT / folder for folder in FOLDERS)]
    parts = [(path.relative_to(ROOT).parts, path.is_dir()) for path in paths]
    shortened = [("/".join(each[start:]), is_folder) for each, is_folder in parts for start in range(len(each))]
    return (
        frozenset(name for name, is_folder in shortened if not is_folder),
        frozenset(name for name, is_folder in shortened if is_folder),
    )


@cache
def names_of(module: str) -> frozenset[str] | None:
    """The names of a module or package; None: there is none."""
    place = ROOT.joinpath(*module.split("."))
    # a folder that an older checkout has left has compiled code alone
    if place.is_dir() and any(place.rglob("*.py")):
        inside = {path.stem for path in place.iterdir() if path.suffix == ".py" or path.is_dir()}
        start = place / "__init__.py"
        return frozenset(inside | (_defined(start) if start.exists() else set()))
    file = place.with_suffix(".py")
    return frozenset(_defined(file)) if file.exists() else None


def _defined(file: Path) -> set[str]:
    names = {"__file__", "__name__", "__doc__", "__all__"}
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case _:
                pass
    return names


def is_there(dotted: str) -> bool:
    """Whether it is a module of ours, or a name in one; of a class's own names only the class is looked at."""
    head, _, rest = dotted.partition(".")
    while rest:
        names = names_of(head)
        if names is None:
            return True
        name, _, rest = rest.partition(".")
        if name not in names:
            return False
        head = f"{head}.{name}"
    return True


def dangling(text: str, is_page: bool = False, daemon: str = "") -> list[str]:
    """What the text names that is not there. Args: daemon: the one whose `core` is meant, as `daemons.luxid`."""
    known, folders = files()
    found = [path for path in _PATH.findall(text) if path not in known]
    found += [dotted for dotted in _DOTTED.findall(text) if not is_there(dotted)]
    for module, names in _IMPORT.findall(text):
        words = [f"{module}.{name.split()[0]}" for name in names.split(", ") if name.strip()]
        found += [word for word in words if not is_there(word)]
    if not is_page:
        found += [name for name in _FILE.findall(text) if name not in known]
    if daemon:
        found += [core for core in _CORE.findall(text) if not is_there(f"{daemon}.{core}")]
    if is_page:
        found += [name for line in text.splitlines() for name in _not_beside(line)]
        found += [name for name in _FOLDER.findall(text) if name.removesuffix("/") not in folders]
    return [each for each in found if not EXCEPTIONS.match(each)]


def _not_beside(line: str) -> Iterator[str]:
    """Files that a line names without a folder, and that are not in the one it named last (if it did)."""
    known, _ = files()
    folder = ""
    for named in _NAMED.findall(line):
        if "/" in named:
            folder = named.rpartition("/")[0] + "/"
        elif folder + named not in known:
            yield folder + named


def texts_in(code: str) -> Iterator[tuple[int, str]]:
    """Comments and string constants of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type in _WORDS:
            yield token.start[0], token.string


def pages() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")]
    return [
        *sorted(ROOT.glob("*.md")),
        *(path for path in sorted(inside) if not {"data", "_build", "_reference"} & set(path.parts)),
    ]


def others() -> list[Path]:
    """Settings, units, templates, lists of tools, and other texts."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in _OTHERS]
    return [ROOT / "Makefile", *ROOT.glob("*.toml"), *(path for path in sorted(inside) if "data" not in path.parts)]


def modules() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__) and "data" not in path.parts
    ]


def test_what_a_page_names_is_there() -> None:
    lost = [f"{page.relative_to(ROOT)}: {each}" for page in pages() for each in dangling(page.read_text(), True)]

    assert lost == []


def test_what_another_text_names_is_there() -> None:
    lost = [f"{path.relative_to(ROOT)}: {each}" for path in others() for each in dangling(path.read_text())]

    assert lost == []


def test_what_comments_and_texts_of_the_code_name_is_there() -> None:
    lost = []
    for path in modules():
        place = path.relative_to(ROOT)
        daemon = ".".join(place.parts[:2]) if place.parts[0] == "daemons" else ""
        # all of a module is soon searched; its words are only told apart where something was found
        if dangling(code := path.read_text(), daemon=daemon):
            texts = list(texts_in(code))
            lost += [f"{place}:{line}: {each}" for line, text in texts for each in dangling(text, daemon=daemon)]

    assert lost == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`luxid/scheduler.py`, daemons/luxid/rpc.py", []),
        ("`rpc.py` and `nothing.py`", ["nothing.py"]),
        ("see luxid/nothing.py", ["luxid/nothing.py"]),
        ("`common.queue.reasons.Batch.size`, `common.queue`", []),
        ("`common.queue.nothing.Batch`", ["common.queue.nothing.Batch"]),
        ("`common.queue.reasons.Nothing`", ["common.queue.reasons.Nothing"]),
        ("from common.queue.reasons import Batch, Nothing as Other", ["common.queue.reasons.Nothing"]),
        ("/etc/protocol.d, my.common.names and /srv/thing.py", []),
    ],
)
def test_a_text_is_read_for_paths_modules_and_names(text: str, expected: list[str]) -> None:
    assert dangling(text) == expected


def test_a_file_without_a_folder_is_in_the_one_that_its_line_of_a_page_named_last() -> None:
    assert dangling("| `luxid/rpc.py`, `main.py`, `table.py` |\n| `table.py` |", is_page=True) == ["luxid/table.py"]


def test_a_page_is_read_for_folders_too() -> None:
    assert dangling("`daemons/luxid/`, `daemons/nothing/`", is_page=True) == ["daemons/nothing/"]


def test_core_is_that_of_the_daemon_whose_code_is_read() -> None:
    text = "`core.queue.entries` and `core.locks.table`"

    assert dangling(text, daemon="daemons.luxid") == ["core.locks.table"]
