"""One cluster with rapid for all tests of `--remote`, and a token for it."""

import time
from collections.abc import Iterator

import pytest

from common.webaccess.tokensfile import TokensFile, Wish
from tests.support.web.rapid import Web


@pytest.fixture(scope="package")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web


@pytest.fixture(scope="package")
def token(web: Web) -> str:
    return str(TokensFile(web.paths).create(Wish("ci", ("operate",), None, "root"), time.time())[1])
