"""Builders for lock tests: owners, requests and states in one line of text each.

An owner is written `job/7` or a name, a request `node/n1=shared` (or `exclusive`, `release`).
"""

from common.ids import JobId
from common.locks import Lock, LockMode, LockRequest, Owner, parse_lock, parse_mode
from daemons.wconfd.core.locks.table import LockTable, update_locks
from daemons.wconfd.core.locks.waiting import LockState


def owner(text: str, pid: int | None = None) -> Owner:
    """`job/7` becomes job 7; anything else is the name of a client."""
    kind, _, number = text.partition("/")
    ident = JobId(int(number)) if kind == "job" and number else text
    return Owner(ident, f"/run/livelocks/{text.replace('/', '_')}", pid)


def requests(text: str) -> list[LockRequest]:
    """`"node/n1=shared node/n2=release"` becomes two items."""
    return [request(item) for item in text.split()]


def request(text: str) -> LockRequest:
    name, _, mode = text.rpartition("=")
    return LockRequest(parse_lock(name), None if mode == "release" else parse_mode(mode))


def owned(text: str) -> list[tuple[Lock, LockMode]]:
    """`"node/n1=shared"` becomes [(node/n1, shared)]."""
    return [(item.lock, item.mode) for item in requests(text) if item.mode]


def table_with(**holdings: str) -> LockTable:
    """`table_with(job_1="node/n1=shared")`: each owner's locks, asked in one request."""
    table = LockTable()
    for name, text in holdings.items():
        verdict = update_locks(table, owner(name.replace("_", "/")), requests(text))
        assert not verdict.blocked_on, f"{name} is blocked by {verdict.blocked_on}"
        table = verdict.table
    return table


def held_text(table: LockTable, who: Owner | str) -> str:
    """What an owner holds, as `requests` reads it."""
    held = table.held_by(owner(who) if isinstance(who, str) else who)
    return " ".join(f"{lock}={mode.value}" for lock, mode in held.items())


def state_text(state: LockState) -> str:
    """The whole state, one line for each owner that holds and each that waits; `(nothing)` if empty."""
    lines = [f"{who}: {held_text(state.table, who)}" for who in state.table.owners()]
    for pending in state.all_pending():
        asked = " ".join(f"{item.lock}={item.to_wire()[1]}" for item in pending.requests)
        lines.append(f"{pending.owner} waits at {pending.priority}: {asked}")
    return "\n".join(lines) or "(nothing)"
