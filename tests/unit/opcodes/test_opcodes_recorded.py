"""What a real luxid 3.0.2 read, refused, wrote back and showed, beside what we make of it (opcodes.md 2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.errors import GantryError
from common.opcodes.base import REDACTED, summary, write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobfile import decode_job

DATA = Path(__file__).parents[2] / "data" / "ganeti-3.0.2"
RECORDS: list[dict[str, Any]] = [orjson.loads(line) for line in (DATA / "opcodes.jsonl").read_bytes().splitlines()]
# some of the recorded files were rewritten by the job's process, which fills in what it has resolved
RESOLVED = {"debug_level", "on_node_uuids", "hypervisor"}


def _name(record: dict[str, Any]) -> str:
    written = record.get("written", record.get("submitted")) or {}
    return str(written.get("OP_ID", "nothing"))


def _records(*keys: str) -> list[Any]:
    return [pytest.param(record, id=_name(record)) for record in RECORDS if all(key in record for key in keys)]


def _recorded_inputs() -> Iterator[dict[str, Any]]:
    yield from (record["written"] for record in RECORDS if "written" in record)
    for path in sorted(DATA.glob("queue-*/job-*")):
        yield from (dict(op.input) for op in decode_job(path.read_bytes(), path.name).ops)


def _without_what_the_process_adds(written: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """A process writes null for each parameter that is unset, and values that it has resolved."""
    return {key: value for key, value in written.items() if key in ours or not (value is None or key in RESOLVED)}


@pytest.mark.parametrize("record", _records("submitted", "written"))
def test_what_is_kept_of_a_submission_is_what_ganeti_kept(record: dict[str, Any]) -> None:
    written = record["written"]

    ours = write_opcode(parse_opcode(record["submitted"]))

    # luxid adds itself to the reasons and makes relative ids absolute; that is the submission's business
    theirs = {**_without_what_the_process_adds(written, ours), "reason": ours["reason"], "depends": ours["depends"]}
    assert ours == theirs


@pytest.mark.parametrize("recorded", [pytest.param(recorded, id=recorded["OP_ID"]) for recorded in _recorded_inputs()])
def test_what_ganeti_kept_stays_as_it_is(recorded: dict[str, Any]) -> None:
    ours = write_opcode(parse_opcode(recorded))

    theirs = _without_what_the_process_adds(recorded, ours)
    if theirs.get("osparams_secret"):
        # a process writes null for a secret
        theirs["osparams_secret"] = dict.fromkeys(theirs["osparams_secret"], REDACTED)
    assert ours == theirs


@pytest.mark.parametrize("record", [record for record in RECORDS if "refused" in record], ids=_name)
def test_what_ganeti_refuses_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(GantryError):
        parse_opcode(record["submitted"])


@pytest.mark.parametrize(
    "record", [record for record in RECORDS if "submitted" in record and "refused" not in record], ids=_name
)
def test_the_normal_form_has_all_that_was_set_and_is_its_own_normal_form(record: dict[str, Any]) -> None:
    submitted = record["submitted"]

    ours = write_opcode(parse_opcode(submitted))

    kept = {key: value for key, value in submitted.items() if value is not None and key != "osparams_secret"}
    assert {key: ours[key] for key in kept} == kept
    assert write_opcode(parse_opcode(ours)) == ours


@pytest.mark.parametrize("record", _records("summary"))
def test_summaries_are_those_of_ganeti(record: dict[str, Any]) -> None:
    assert summary(parse_opcode(record["written"])) == record["summary"]
