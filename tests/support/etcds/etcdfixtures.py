"""Fixtures of etcd for all tests; loaded by tests/conftest.py.

Where no etcd is usable, the tests that take one of them are skipped, and the run tells how many at its end. With
GANTRY_ETCD_REQUIRED, as in CI, they fail, whatever they are skipped for.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NoReturn

import pytest

from tests.support.etcds.etcd import (
    ETCD_SERVER,
    Etcd,
    EtcdBinary,
    TestEtcd,
    is_etcd_required,
    usable_etcd,
    without_etcd,
)

_FIXTURE: Final = "etcd_binary"


@pytest.fixture(scope="session")
def etcd_binary() -> EtcdBinary:
    """The program of the members that a test starts."""
    return usable_etcd() or leave_out(without_etcd())


@pytest.fixture(scope="module")
def module_etcd(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    """One member for all tests of a module."""
    with Etcd(tmp_path_factory.mktemp("etcd"), binary=etcd_binary) as etcd:
        yield etcd


@pytest.fixture
def etcd(module_etcd: Etcd) -> TestEtcd:
    """The module's etcd, with a prefix of this test's own."""
    return TestEtcd(module_etcd, module_etcd.new_prefix())


def leave_out(reason: str) -> NoReturn:
    """Skip a test for want of an etcd, or let it fail where one is required. Args: reason: with what to install."""
    if is_etcd_required():
        pytest.fail(f"{reason}; GANTRY_ETCD_REQUIRED is set", pytrace=False)
    pytest.skip(reason)


def refuse_skip(report: pytest.TestReport, fixtures: Collection[str]) -> None:
    """Let a test of etcd that was skipped count as failed, where an etcd is required.

    Args: fixtures: names of all fixtures that it takes, also by others.
    """
    is_skipped = report.skipped and not hasattr(report, "wasxfail")
    if is_skipped and _FIXTURE in fixtures and is_etcd_required():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason}; GANTRY_ETCD_REQUIRED is set"


def left_out(reasons: Iterable[str]) -> str:
    """What a run of the tests tells at its end. Args: reasons: those of all tests that were skipped; empty: nothing."""
    found = [reason for reason in reasons if ETCD_SERVER in reason]
    if not found:
        return ""
    return f"left out: {len(found)} tests with a real etcd, most of them kill or stop its members; {ETCD_SERVER}"
