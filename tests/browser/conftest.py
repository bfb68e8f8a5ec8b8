"""One cluster and one browser for all tests: each makes its own jobs."""

import os
import pwd
from collections.abc import Iterator

import pytest

from tests.browser.browser import Browser
from tests.support.web.rapid import Web

ME = pwd.getpwuid(os.getuid()).pw_name
USERS = f"op op-secret operate\nreader reader-secret read\nworker worker-secret operate,unix={ME}\n"


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.put_users(USERS)
        web.start()
        yield web


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.fixture
def stranger(web: Web, window: Browser) -> Browser:
    """A browser of somebody who has not logged in, on the login page."""
    # cookies belong to the page that is open
    window.open(f"{web.url}/ui/login")
    window.driver.delete_all_cookies()
    window.open(f"{web.url}/ui/login")
    window.console()
    return window


@pytest.fixture
def worker(web: Web, stranger: Browser) -> Iterator[Browser]:
    """A browser of an operator for whom commands can run; at the end its console must be empty."""
    stranger.log_in(web.url, "worker", "worker-secret")
    stranger.wait_for("nav", text="Dashboard")
    yield stranger
    stranger.check_console()


@pytest.fixture
def browser(web: Web, stranger: Browser) -> Iterator[Browser]:
    """A browser of an operator; at the end its console must be empty."""
    stranger.log_in(web.url, "op", "op-secret")
    stranger.wait_for("nav", text="Dashboard")
    yield stranger
    stranger.check_console()
