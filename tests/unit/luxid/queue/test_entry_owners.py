"""Each field of an entry is written by one module of luxid's core, as the class says."""

import ast
from pathlib import Path

import attrs

from daemons.luxid.core.queue.entry import Entry

CORE = Path(__file__).parents[4] / "daemons" / "luxid" / "core"
HISTORY = ("waiting_on", "waiting_since", "waited")


def owner_of(field: str) -> str:
    if field in ("phase", "is_stopped"):
        return "queue/entries.py"
    if field == "deferral":
        return "queue/jobqueue.py"
    return "why/history.py" if field in HISTORY else "filters/judging.py"


def test_no_other_module_writes_a_field_of_an_entry() -> None:
    fields = {field.name for field in attrs.fields(Entry)}
    written = {
        (node.attr, str(path.relative_to(CORE)))
        for path in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "entry"
    }

    assert {("phase", "queue/entries.py"), ("waited", "why/history.py"), ("job", "filters/judging.py")} <= written
    assert {(name, place) for name, place in written if name in fields and place != owner_of(name)} == set()
