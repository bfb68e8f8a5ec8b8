"""Predicates of filter rules that a package adds. DESIGN section 6, "Filters"."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.filters import compile_chain, known_predicates, read_rule
from common.queue.jobs import Job, JobOp
from common.queue.terms import JobTerms, with_terms
from tests.support.filterrules import filter_rule
from tests.support.naive.chain import applying

PACKAGE = """
from common.queue.filters import Predicate
from common.query.predicate import PREDICATE, Field, compile_expression

FIELDS = {"opcodes": Field(lambda job: len(job.ops))}

def _check(expression):
    assert set(expression.field_names()) <= set(FIELDS)

size = Predicate(lambda expression, rule: compile_expression(expression, FIELDS.get, PREDICATE), _check)
"""
LONG = ["size", [">", "opcodes", 1]]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The entry points of a package that is installed for one test."""
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    points = info / "entry_points.txt"
    points.write_text("[gantry.predicates]\nsize = demo_predicates:size\n")
    (tmp_path / "demo_predicates.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    known_predicates.cache_clear()
    yield points
    known_predicates.cache_clear()


def rule(*predicates: Any, uuid: str = "u", priority: int = 0) -> FilterRule:
    return filter_rule(
        watermark=JobId(0), priority=priority, predicates=predicates, action="PAUSE", reason_trail=(), uuid=uuid
    )


def job(opcodes: int) -> Job:
    return Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),) * opcodes)


def test_a_package_adds_a_predicate_by_an_entry_point(package: Path) -> None:
    chain = compile_chain([read_rule(rule(LONG))])

    assert applying(chain, job(1)) is None
    assert applying(chain, job(2)) is not None


def test_of_two_predicates_with_a_name_neither_is_taken(package: Path) -> None:
    package.write_text("[gantry.predicates]\njobid = demo_predicates:size\n")

    with pytest.raises(InvalidRequest, match="demo_predicates:size defines the filter predicate 'jobid'"):
        known_predicates()


def test_a_rule_whose_predicate_went_with_its_package_matches_nothing_and_leaves_the_others_in_force() -> None:
    lost, other = rule(LONG, uuid="lost"), rule(["jobid", ["=", "id", 1]], uuid="other", priority=1)

    found = applying(compile_chain([lost, other]), job(2))

    assert found is not None
    assert found.rule.uuid == "other"
    with pytest.raises(InvalidRequest, match="unknown predicate 'size'; known are jobid, opcode, reason, terms"):
        read_rule(lost)


@pytest.mark.parametrize(
    ("expression", "named", "unnamed"),
    [
        (["=~", "name", "^backup"], True, False),
        (["==", "label.team", "web"], True, False),
        (["!=", "label.team", "db"], True, True),
        (["!", ["==", "label.team", "web"]], False, True),
        (["==", "label.rack", "web"], False, False),
    ],
)
def test_a_rule_asks_for_the_name_and_the_labels_of_a_job(expression: list[object], named: bool, unnamed: bool) -> None:
    chain = compile_chain([read_rule(rule(["terms", expression]))])

    assert (applying(chain, with_terms(job(1), JobTerms("backup-web1", {"team": "web"}), 1)) is not None) == named
    assert (applying(chain, job(1)) is not None) == unnamed


@pytest.mark.parametrize("name", ["label.", "user"])
def test_a_rule_about_terms_that_there_are_not_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="known are name, and label"):
        read_rule(rule(["terms", ["==", name, "x"]]))
