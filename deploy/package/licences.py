"""The copyright file of the package, in Debian's form, with the licence of everything that the package carries."""

import re
import textwrap
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

_FORMAT: Final = "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
_LICENCE_FILES: Final = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|AUTHORS)", re.I)


def write_copyright(docs: Path, source: Path, packages: Path) -> None:
    """Write `copyright`, with the licence of Gantry first and then of each package of the environment.

    Raises: LookupError: a package tells no licence.
    """
    own = (source / "LICENSE").read_text()
    parts = [
        f"Format: {_FORMAT}\nUpstream-Name: Gantry\n",
        _stanza("*", _holders(own) or "The Gantry authors", "BSD-2-Clause", own),
    ]
    for metadata in sorted(packages.glob("*.dist-info/METADATA"), key=lambda path: path.parent.name.lower()):
        if not metadata.parent.name.startswith("gantry-"):
            parts.append(_of_package(metadata))
    (docs / "copyright").write_text("\n".join(parts))


def _of_package(metadata: Path) -> str:
    told = Parser().parsestr(metadata.read_text(errors="replace"), headersonly=True)
    licence = _licence(told)
    texts = [
        f"-- {path.name} --\n{path.read_text(errors='replace')}"
        for path in sorted(metadata.parent.rglob("*"))
        if path.is_file() and _LICENCE_FILES.search(path.name)
    ]
    holders = (
        _holders("\n".join(texts)) or told.get("Author") or told.get("Author-email") or f"the authors of {told['Name']}"
    )
    folder = f"opt/gantry/shipped/lib/python3*/site-packages/{metadata.parent.name.split('-')[0]}*"
    body = "\n".join(texts) or f"As its authors say in the metadata of {told['Name']} {told['Version']}: {licence}"
    return _stanza(folder, holders, licence, body, comment=f"{told['Name']} {told['Version']}")


def _licence(told: Message) -> str:
    """What the metadata says, in a line: an expression of SPDX, else the words of classifiers, else a name."""
    if expression := told.get("License-Expression"):
        return str(expression)
    classes = [each.split(" :: ")[-1] for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    if classes:
        return " or ".join(classes)
    # it may hold the whole text, which begins with the name
    named = (told.get("License") or "").strip().splitlines()
    if not named:
        raise LookupError(f"{told['Name']} {told['Version']} tells no licence in its metadata")
    return str(named[0])


def _holders(text: str) -> str:
    """The lines that say whose the copyright is."""
    lines = (line.strip(" *#.") for line in text.splitlines())
    found = [line for line in lines if re.match(r"(Copyright|©|\(c\))\s*(\(c\)|©|\d|[A-Z])", line, re.I)]
    return "\n".join(dict.fromkeys(line for line in found if "[yyyy]" not in line and "owner" not in line.lower()))


def _stanza(files: str, holders: str, licence: str, text: str, comment: str = "") -> str:
    told = f"Comment: {comment}\n" if comment else ""
    return f"Files: {files}\n{told}Copyright: {_indented(holders).strip()}\nLicense: {licence}\n{_indented(text)}\n"


def _indented(text: str) -> str:
    """The lines as those that continue a field: a blank before each, and a dot for an empty one."""
    lines = textwrap.dedent(text).strip("\n").splitlines()
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in lines)
