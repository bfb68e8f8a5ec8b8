"""Records each change that etcd makes, by a watch that goes on at whichever member replies.

It speaks to the members by itself: the client of the daemons is what is tested.
"""

import contextlib
import http.client
import itertools
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, Self

from tests.reliability.lease.reigns import KeyChange
from tests.support.etcds.etcd import Etcd
from tests.support.machines.nodes import HOST
from tests.support.wait import wait_until

# seconds without a line after which another member is asked
_SILENCE_S: Final = 3.0
_PAUSE_S: Final = 0.1
# key by which it is seen that all before is recorded
_MARK: Final = "recorded"


class Recorder:
    """A context manager; records from its beginning on. Args: prefix: of the keys that are recorded."""

    def __init__(self, etcd: Etcd, prefix: str) -> None:
        self._etcd, self._prefix = etcd, prefix
        self._lock = threading.Lock()
        self._changes: list[KeyChange] = []
        # revision up to which everything is recorded
        self._last = _ask(etcd, "/v3/kv/range", _range(prefix))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        # why some changes are missing; empty: none are
        self.gap = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def changes(self) -> list[KeyChange]:
        """All changes up to now."""
        mark = f"{self._prefix}{_MARK}"
        revision = _ask(self._etcd, "/v3/kv/put", {"key": b64encode(mark.encode()).decode()})
        wait_until(lambda: self.gap or self._last >= revision, what=f"revision {revision} is recorded",
                   state=lambda: self._last)  # fmt: skip
        with self._lock:
            return [change for change in self._changes if change.key != mark]

    def _run(self) -> None:
        for turn in itertools.count():
            member = self._etcd.members[turn % len(self._etcd.members)]
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._watch(member.port)
            if self._is_over.wait(_PAUSE_S):
                return

    def _watch(self, port: int) -> None:
        connection = http.client.HTTPConnection(HOST, port, timeout=_SILENCE_S)
        try:
            request = {**_range(self._prefix), "start_revision": str(self._last + 1)}
            connection.request("POST", "/v3/watch", json.dumps({"create_request": request}))
            reply = connection.getresponse()
            while not self._is_over.is_set() and (line := reply.readline()):
                self._note(json.loads(line)["result"])
        except KeyError:
            # the stream has ended with an error
            return
        finally:
            connection.close()

    def _note(self, result: Any) -> None:
        if result.get("canceled"):
            self.gap = f"etcd has ended the watch: {result}"
            self._is_over.set()
            return
        found = [_change(event) for event in result.get("events", ())]
        with self._lock:
            self._changes += found
        if found:
            self._last = found[-1].revision


def _change(event: Any) -> KeyChange:
    pair = event["kv"]
    is_gone = event.get("type") == "DELETE"
    value = None if is_gone else b64decode(pair.get("value", ""))
    return KeyChange(int(pair["mod_revision"]), b64decode(pair["key"]).decode(), value)


def _range(prefix: str) -> dict[str, str]:
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return {"key": b64encode(prefix.encode()).decode(), "range_end": b64encode(end.encode()).decode()}


def _ask(etcd: Etcd, path: str, body: Mapping[str, str]) -> int:
    """The revision in the reply of whichever member gives one."""
    found: list[int] = []

    def is_answered() -> bool:
        for member in etcd.members:
            connection = http.client.HTTPConnection(HOST, member.port, timeout=_SILENCE_S)
            with contextlib.suppress(OSError, http.client.HTTPException, KeyError, ValueError):
                connection.request("POST", path, json.dumps(body))
                reply = json.loads(connection.getresponse().read())
                found.append(int(reply["header"]["revision"]))
            connection.close()
            if found:
                return True
        return False

    wait_until(is_answered, what=f"etcd replies to {path}")
    return found[-1]
