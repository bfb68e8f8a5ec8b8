"""One cluster with rapid for all tests of `--remote`, and a token for it."""

import time
from collections.abc import Iterator

import pytest

from cli.live import watching
from common.webaccess.tokens import NewToken, TokensFile
from tests.support.accounts.users import OWN_LOGIN
from tests.support.forks.programs import PATIENT_SILENCE_S
from tests.support.web.rapid import Web


@pytest.fixture(scope="package")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a moment is no reason to wait that a user is told."""
    monkeypatch.setattr(watching, "_SILENCE_S", PATIENT_SILENCE_S)


@pytest.fixture(scope="package")
def token(web: Web) -> str:
    return str(TokensFile(web.paths).create(NewToken("ci", ("operate",), None, OWN_LOGIN), time.time())[1])
