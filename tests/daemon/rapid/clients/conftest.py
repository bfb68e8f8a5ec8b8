"""One cluster with rapid for all tests of its clients."""

from collections.abc import Iterator

import pytest

from tests.support.web.rapid import Web


@pytest.fixture(scope="package")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web
