"""Health checks over HTTP: whether this node is the master, for load balancers and for people who watch.

Theory. All of it is made from the memory of this process and its clock, never from etcd or a disk: a check must not
hang when they do. `/master` refuses before the daemons are ended. What is told holds for `valid_s` seconds.

    /master     200 while this node serves as the master
    /replica    200 while it would take over
    /health     200 unless something here needs a person
    /liveness   200 while keeperd gets on with its work

Source: lease.md 2.
"""

from collections.abc import Callable
from typing import Final

from common.lease.deadline import boottime
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import ROLES, State
from protocol.http.connections import PlainPages, PlainReply

_OK: Final = 200
_NOT_NOW: Final = 503
_METHODS: Final = "GET, HEAD, OPTIONS"
# states that need a person, or soon will
_ILL: Final = frozenset({State.OFF, State.WAIT, State.DOUBT, State.LOST})


class HealthPages:
    """What is at which path. Args: keeper: the present one; None: keeperd is just starting."""

    def __init__(self, node: str, keeper: Callable[[], Keeper | None], is_well: Callable[[], bool]) -> None:
        self._node = node
        self._keeper = keeper
        self._is_well = is_well
        self._judges: dict[str, Callable[[Keeper, float], bool]] = {
            "/": _is_healthy,
            "/health": _is_healthy,
            "/master": _serves,
            "/replica": _would_take_over,
            "/liveness": lambda _, __: self._is_well(),
        }

    def pages(self) -> PlainPages:
        """All of them, to be served."""
        return PlainPages(self.page, ((b"cache-control", b"no-store"), (b"allow", _METHODS.encode())))

    def page(self, path: str, method: str = "GET") -> PlainReply:
        """What is at a path now."""
        judge = self._judges.get(path)
        if judge is None:
            return PlainReply.of(404, {"error": "not found", "paths": sorted(self._judges)})
        if method not in _METHODS.split(", "):
            return PlainReply.of(405, {"error": f"{method[:20]} is not allowed", "allowed": _METHODS})
        keeper, now = self._keeper(), boottime()
        if keeper is None:
            return PlainReply.of(_NOT_NOW, {"node": self._node, "state": State.OFF.value})
        return PlainReply.of(_OK if judge(keeper, now) else _NOT_NOW, self._told(keeper, now))

    def _told(self, keeper: Keeper, now: float) -> dict[str, object]:
        view = keeper.view
        return {
            "node": self._node,
            "state": keeper.state.value,
            "role": ROLES[keeper.state].value,
            "epoch": keeper.held.epoch if keeper.held else keeper.memory.epoch,
            "master": self._node if keeper.held else view.master.node if view and view.master else None,
            "valid_s": keeper.valid_s(now),
            "maintenance": keeper.in_maintenance,
        }


def _serves(keeper: Keeper, now: float) -> bool:
    return keeper.may_serve(now)


def _would_take_over(keeper: Keeper, _: float) -> bool:
    return keeper.state in (State.FOLLOW, State.CAMPAIGN) and keeper.me.priority > 0


def _is_healthy(keeper: Keeper, now: float) -> bool:
    return keeper.may_serve(now) or keeper.state not in (*_ILL, State.MASTER, State.SHAKY)
