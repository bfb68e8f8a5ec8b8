"""A browser without a script."""

import re

import httpx2

from tests.support.web.rapid import Web


class Visitor:
    """Someone at the pages, over TCP; with the cookies that they set."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.client: httpx2.Client = web.remote()
        # what browsers send with a form of our page
        self.client.headers["Origin"] = web.url

    def get(self, path: str) -> httpx2.Response:
        return self.client.get(path)

    def token(self, path: str = "/ui/login") -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(path).text)
        assert found, path
        return found[1]

    def post(self, path: str, token: str | None = None, **fields: str) -> httpx2.Response:
        form = {"token": self.token("/ui/keys") if token is None else token, **fields}
        return self.client.post(path, data=form)

    def log_in(self, name: str, password: str) -> httpx2.Response:
        return self.post("/ui/login", self.token(), name=name, password=password)
