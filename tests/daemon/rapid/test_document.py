"""The document is served, its examples are real requests, and the replies are as it says."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from daemons.rapid.resources.parameters import EXAMPLES
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("document")) as web:
        web.start()
        yield web


def test_each_example_is_taken_and_its_reply_is_as_documented(web: Web) -> None:
    document = Document(web.local.get("/3/openapi.json").json())

    for (verb, path), bodies in EXAMPLES.items():
        for name, body in bodies.items():
            # a name of its own for what a path names
            named = path.replace("{name}", "nightly").replace("{key}", "licences")
            reply = web.local.request(verb, named, json=on_own_node(web, body))
            assert reply.is_success, f"{name}: {reply.text}"
            document.check(reply)


def test_the_document_and_its_pages_are_served_once_and_then_known(web: Web) -> None:
    for path, kind in (
        ("/3/openapi.json", "application/json"),
        ("/3/docs", "text/html; charset=utf-8"),
        ("/3/problems", "text/html; charset=utf-8"),
        ("/3/docs.css", "text/css; charset=utf-8"),
    ):
        first = web.local.get(path)
        tag = first.headers["etag"]
        again = [web.local.get(path, headers={"If-None-Match": each}) for each in (tag, f'W/{tag}, "other"', "*")]
        changed = web.local.get(path, headers={"If-None-Match": '"other"'})

        assert (first.status_code, first.headers["content-type"]) == (200, kind)
        assert "default-src 'none'" in first.headers["content-security-policy"]
        assert [(each.status_code, each.content) for each in again] == [(304, b"")] * 3
        assert changed.content == first.content


def on_own_node(web: Web, body: object) -> Any:
    """The body with the cluster's own node for those of the example, which it has not."""
    (node,) = json.loads(web.paths.config_data.read_bytes())["nodes"].values()
    return json.loads(re.sub(r'"web[12]"', json.dumps(node["name"]), json.dumps(body)))
