"""The certificate that rapid shows, while its file is replaced (rapi.md 1)."""

import datetime
import errno
import os
import ssl
from pathlib import Path

import pytest

from common.nodes.certificates import make_web_certificate, write_certificate
from daemons.rapid.transport import certificate
from daemons.rapid.transport.certificate import FileIdentity

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rapi.pem"
    write_certificate(path, make_web_certificate(["old.test"], NOW))
    return path


def test_a_new_certificate_that_could_not_be_read_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = FileIdentity(path)
    old = identity.context()
    write_certificate(path, make_web_certificate(["new.test"], NOW))

    def refuse(*_: object) -> ssl.SSLContext:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(certificate, "_load", refuse)
        assert identity.context() is old

    new = identity.context()
    assert new is not old
    assert identity.context() is new


def test_an_unusable_certificate_is_judged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity = FileIdentity(path)
    old = identity.context()
    write_certificate(path, b"no certificate")

    assert identity.context() is old
    assert identity.context() is old
    assert [record.message for record in caplog.records].count("certificate.unusable") == 1
