"""A cluster with rapid, and users as Ganeti's clients have them."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.support.web.rapid import Web

SETTINGS = "[luxid]\nmax_running_jobs = 4\nkill_grace_s = 0.5\nsweep_s = 3600.0\n"
USERS = """
# name, password, rights
chief csecret admin
reader rsecret read
stranger ssecret
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web"), SETTINGS) as web:
        web.put_users(USERS)
        web.start()
        yield web


@pytest.fixture(scope="module")
def chief(web: Web) -> httpx2.Client:
    """A client of a user who may do everything."""
    return web.remote(auth=("chief", "csecret"))
