"""Forms with jobs: what their fields mean, and that a job that fills one is read from it again (DESIGN section 15)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.reruns import OldJob, to_edit
from common.queue.terms import JobTerms, terms_entry, terms_of_trail
from daemons.rapid.page.jobforms import Texts, filled, plan_field, read_jobs
from protocol.luxi.jobs import NewJob

NOW = 1.8e9
# what people write in commands, and what they should not
CHARACTERS = st.sampled_from("ab '\"\\$&|;<>#=*~é\t\n\r\x1b\u202e\x7f%{}[]")
WORDS = st.text(CHARACTERS, min_size=1, max_size=8)
VALUES = st.text(st.sampled_from("ab '\"\\=é"), max_size=6).filter(lambda text: text.isprintable())


def _is_bare(text: str) -> bool:
    return text == text.strip()


@st.composite
def opcodes(draw: st.DrawFn) -> dict[str, Any]:
    is_shell = draw(st.booleans())
    given: dict[str, Any] = {
        "OP_ID": "OP_RUN_COMMAND",
        # the words of a shell are joined by blanks, and blanks around them mean nothing
        "argv": [draw(WORDS.filter(lambda text: text == text.strip()))]
        if is_shell
        else draw(st.lists(WORDS, min_size=1)),
        "shell": is_shell,
        "locks": draw(st.dictionaries(st.sampled_from(["node/a", "node/b"]), st.sampled_from(["shared", "exclusive"]))),
        "env": draw(st.dictionaries(st.sampled_from(["A", "B"]), WORDS)),
        "node": draw(st.sampled_from([None, "web1"])),
        "cwd": draw(st.sampled_from([None, "/", "/srv/a b"])),
        "timeout": draw(st.sampled_from([None, 0.5, 90.0, 1234567.0])),
        "priority": draw(st.sampled_from([-10, 0, 10])),
        "retries": draw(st.sampled_from([None, 2])),
    }
    return write_opcode(parse_opcode({key: value for key, value in given.items() if value is not None}))


@given(st.lists(opcodes(), min_size=1, max_size=2), st.dictionaries(st.sampled_from(["a", "b"]), VALUES))
def test_a_job_that_fills_a_form_is_read_from_it_again(ops: list[dict[str, Any]], labels: dict[str, str]) -> None:
    terms = JobTerms("a name", labels)
    ops[0] = {**ops[0], "reason": [terms_entry(terms, 1).to_wire()]}

    texts = filled(*to_edit(OldJob(7, "error", ops, [True] * len(ops))))
    # as a browser sends it
    sent = Texts.of({name: [text.replace("\n", "\r\n")] for name, text in texts.values.items()})
    read = read_jobs(sent, NOW)

    assert read.wrong == {}
    (made,) = read.jobs
    assert [meant(op) for op in made.ops] == [meant(op) for op in ops]
    assert terms_of(made) == JobTerms("a name", {**labels, "rerun-of": "7"})


def meant(op: Any) -> dict[str, Any]:
    return {key: value for key, value in write_opcode(parse_opcode(op)).items() if key != "reason"}


def terms_of(job: NewJob) -> JobTerms:
    return terms_of_trail(job.to_input(1)[0]["reason"])


def test_a_command_of_which_the_fields_say_all_is_shown_in_them_and_any_other_as_a_plan() -> None:
    def kind(**more: Any) -> str:
        op = write_opcode(parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **more}))
        return filled(*to_edit(OldJob(7, "error", [op], [True])))["kind"]

    assert kind(locks={"node/a": "shared"}, timeout=5.0, depends=[[3, ["success"]]]) == "command"
    assert [kind(retries=1), kind(memory=2**30), kind(env={"A": "b\nc"})] == ["plan"] * 3


def test_reasons_that_limit_and_no_others_stay() -> None:
    trail = [["gnt:user", text, 1] for text in ("monthly", "rate-limit:2:backup")]
    op = write_opcode(parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "reason": trail}))
    old = OldJob(7, "error", [op], [True])

    assert filled(*to_edit(old))["reason"] == "rate-limit:2:backup"
    _, (kept,) = to_edit(old, keeps_reasons=True)
    assert kept["reason"] == trail


@pytest.mark.parametrize(
    "text", ["", "\udcff", "\x00", "[" * 5000, "x" * (2**20 + 1), "jobs: 5", "- - - 1", '{"jobs":[{}]}']
)
def test_what_is_no_plan_is_told(text: str) -> None:
    texts = Texts({"kind": "plan", "plan": text})

    read = read_jobs(texts, NOW)

    assert read.jobs == ()
    assert list(read.wrong) == ["plan"]
    plan_field(texts, read.wrong).value.encode()


NAMES = (
    *("command", "shell", "locks", "labels", "after", "begin", "timeout"),
    *("env", "node", "name", "cwd", "user", "reason", "priority"),
)


@given(st.dictionaries(st.sampled_from(NAMES), st.text()))
def test_any_text_is_read_or_refused_at_a_field(given_texts: dict[str, str]) -> None:
    read = read_jobs(Texts({"kind": "command", **given_texts}), NOW)

    assert bool(read.jobs) != bool(read.wrong)
    for job in read.jobs:
        assert job.to_input(1)
        assert read.looks()
