"""People log in and out, and nobody acts in their names."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from protocol.luxi.queries import QueryConfigValues
from tests.browser.browser import Browser
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


def test_a_stranger_must_log_in_and_comes_where_he_wanted(web: Web, stranger: Browser) -> None:
    stranger.open(f"{web.url}/ui/jobs?where=status%3Dwaiting")
    stranger.wait_for("h1", text="Log in")

    stranger.log_in(web.url, "op", "op-secret")

    stranger.wait_for("nav", text="Dashboard")
    assert stranger.driver.current_url == f"{web.url}/ui/jobs?where=status%3Dwaiting"
    assert stranger.one("#where").get_attribute("value") == "status=waiting"
    stranger.check_console()


def test_a_wrong_password_is_refused(web: Web, stranger: Browser) -> None:
    stranger.log_in(web.url, "op", "guessed")

    stranger.wait_for("[role=alert]", text="wrong")
    assert stranger.one("input[name=name]").get_attribute("value") == "op"
    stranger.open(f"{web.url}/ui")
    stranger.wait_for("h1", text="Log in")


def test_whoever_logs_out_must_log_in_again(web: Web, browser: Browser) -> None:
    browser.press("log out")
    browser.wait_for("h1", text="Log in")

    browser.open(f"{web.url}/ui/jobs")

    browser.wait_for("h1", text="Log in")


def test_a_reader_is_offered_no_change(web: Web, stranger: Browser) -> None:
    web.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01})
    stranger.log_in(web.url, "reader", "reader-secret")
    stranger.wait_for("nav", text="Jobs")

    for path in ("/ui/jobs", "/ui/filters"):
        stranger.open(web.url + path)

        assert stranger.all("main form[method=post]") == []
    stranger.check_console()


def test_an_open_page_of_a_removed_user_leads_to_the_login(web: Web, stranger: Browser) -> None:
    users = web.paths.rapi_users.read_text()
    stranger.log_in(web.url, "reader", "reader-secret")
    stranger.wait_for("nav", text="Jobs")
    try:
        web.paths.rapi_users.write_text(users.replace("reader ", "nobody "))

        stranger.wait_for("h1", text="Log in")
    finally:
        web.paths.rapi_users.write_text(users)
    # browser and htmx tell that the stream was cut off, and then refused
    wait_until(stranger.console, what="the browser to tell of it")


def test_a_form_of_another_site_changes_nothing(web: Web, browser: Browser) -> None:
    with _site(f'<form method="post" action="{web.url}/ui/queue"><input name="drain" value="yes">'
               '<input name="sure" value="yes"><button>win a prize</button></form>') as evil:  # fmt: skip
        browser.open(evil)
        browser.press("win a prize")

        browser.wait_for("h1", text="did not work")

    assert web.cluster.luxi(QueryConfigValues(("drain_flag",))) == (False,)
    # the browser tells of the refusal
    said: list[str] = []

    def is_told() -> bool:
        said.extend(browser.console())
        return bool(said)

    wait_until(is_told, what="the browser to tell of the refusal")
    assert all("401" in line or "403" in line for line in said)


@contextmanager
def _site(page: str) -> Iterator[str]:
    """Another site of this machine, with one page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    # a browser connects once more than it needs, and keeps that for a minute
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
