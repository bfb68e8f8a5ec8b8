"""What etcd has, without the client that is tested."""

import base64
import contextlib
import json
import urllib.request
from typing import Any, Final

from tests.support.etcds.etcd import Etcd

_LIMIT_S: Final = 10.0


def entries(etcd: Etcd, beginning: str) -> dict[str, bytes]:
    """The keys that begin so, with their values, by whichever member replies. Raises: OSError: none does."""
    end = beginning[:-1] + chr(ord(beginning[-1]) + 1)
    found = call(etcd, "kv/range", {"key": encoded(beginning), "range_end": encoded(end)}).get("kvs", ())
    return {base64.b64decode(pair["key"]).decode(): base64.b64decode(pair.get("value", "")) for pair in found}


def put(etcd: Etcd, key: str, value: str) -> None:
    call(etcd, "kv/put", {"key": encoded(key), "value": encoded(value)})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def call(etcd: Etcd, path: str, body: object) -> Any:
    """The reply of a member."""
    for member in etcd.members:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{member.url}/v3/{path}", json.dumps(body).encode(), timeout=_LIMIT_S) as reply,
        ):
            return json.load(reply)
    raise OSError(f"no member of etcd replies to {path}")
