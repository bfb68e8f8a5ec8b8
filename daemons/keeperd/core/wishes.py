"""What the master does with the wish of an operator.

Source: lease.md 2 and 7.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs

from common.errors import Conflict
from common.lease.records import OperatorRequest, WantedKind
from common.objects.kinds import natural_key, short_names
from daemons.keeperd.core.events import Look, RemoveWanted
from daemons.keeperd.core.fitness import NO_FAILOVER, fit_others
from daemons.keeperd.core.keeper import Heard, Keeper, Step
from daemons.keeperd.core.leaving import TAKER_LIMIT_S, make_way, stay
from daemons.keeperd.core.states import State, View

# seconds that a switch-over waits for a candidate that has not all copies yet
COPIES_LIMIT_S: Final = 60.0
# seconds beyond the limit of a wish in which whoever asked takes it back
SLACK_S: Final = 5.0


@attrs.frozen
class RequestRefusal:
    """Why the master does not obey."""

    reason: str
    # whether it ends when the master has compared the files of other nodes
    may_pass: bool = False


def consider_wish(keeper: Keeper, now: float) -> Step:
    """The master has read what is wanted: obey, wait for copies, or refuse with the reason."""
    view, held = keeper.view, keeper.held
    if view is None or held is None or keeper.state is not State.MASTER or not held.is_ready:
        return keeper, ()
    wish = view.wanted
    if wish is None:
        return attrs.evolve(keeper, verdict=None, heard=None), ()
    if keeper.verdict is not None and keeper.verdict.wanted == wish:
        # its removal is on its way, or was in vain
        return keeper, (keeper.verdict,)
    keeper, heard = _heard(keeper, wish, now)
    refusal = _late(heard, now) or refused(keeper, view, wish)
    if refusal is None:
        return make_way(keeper, wish)
    if not refusal.may_pass:
        return _decided(keeper, RemoveWanted(wish, refusal.reason))
    if now < heard.at + COPIES_LIMIT_S:
        return keeper, ()
    return _decided(keeper, RemoveWanted(wish, f"{refusal.reason}; that did not end within {COPIES_LIMIT_S:g} s"))


def reconsider(keeper: Keeper, now: float) -> Step:
    """Make way on only while the operator wants it, and another node can take over."""
    view, wish = keeper.view, keeper.leaving
    if view is None or wish is None or not keeper.is_draining:
        return keeper, ()
    if view.wanted != wish:
        return stay(keeper)
    keeper, heard = _heard(keeper, wish, now)
    refusal = _late(heard, now) or refused(keeper, view, wish)
    if refusal is None:
        return keeper, ()
    keeper, acts = stay(keeper)
    if refusal.may_pass:
        # its record was from before this mastership; the master waits first
        return keeper, (*acts, Look())
    keeper, more = _decided(keeper, RemoveWanted(wish, refusal.reason))
    return keeper, (*acts, *more)


def _heard(keeper: Keeper, wish: OperatorRequest, now: float) -> tuple[Keeper, Heard]:
    heard = keeper.heard
    if heard is None or heard.wish != wish:
        heard = Heard(wish, now)
    return attrs.evolve(keeper, heard=heard), heard


def _late(heard: Heard, now: float) -> RequestRefusal | None:
    """Whoever asked takes it back in time; this is for one who has gone."""
    limit_s = heard.wish.limit_s
    if not limit_s or now < heard.at + limit_s + SLACK_S:
        return None
    return RequestRefusal(f"the mastership was not moved within {limit_s:g} s")


def conclude_wish(keeper: Keeper) -> Step:
    """The daemons serve: the wish by which, or beside which, the mastership was won is over."""
    assert keeper.held is not None
    wish = keeper.held.wish
    came_back = keeper.made_way_until > 0
    keeper = attrs.evolve(keeper, made_way_until=0.0)
    if wish is None:
        return keeper, ()
    me = keeper.me.node
    if wish.node not in ("", me):
        return _decided(keeper, RemoveWanted(wish, f"'{wish.node}' has not taken over in time; '{me}' has"))
    if came_back:
        refusal = f"no other node has taken over within {TAKER_LIMIT_S:g} s; '{me}' is the master again"
        return _decided(keeper, RemoveWanted(wish, refusal))
    return _decided(keeper, RemoveWanted(wish))


def _decided(keeper: Keeper, verdict: RemoveWanted) -> Step:
    return attrs.evolve(keeper, verdict=verdict), (verdict,)


def refused(keeper: Keeper, view: View, wish: OperatorRequest) -> RequestRefusal | None:
    """Return why the master does not obey; None: it does."""
    me = keeper.me.node
    match wish.kind:
        case WantedKind.TAKEOVER:
            return RequestRefusal(
                f"'{me}' is the master and renews its lease; use 'gantry cluster switchover', or stop keeperd on '{me}'"
            )
        case WantedKind.SWITCHOVER:
            return _switchover_refused(keeper, view, wish)
        case _:
            assert_never(wish.kind)


def _switchover_refused(keeper: Keeper, view: View, wish: OperatorRequest) -> RequestRefusal | None:
    me = keeper.me.node
    if wish.node == me:
        return RequestRefusal(f"'{me}' is the master already")
    if keeper.in_maintenance:
        return RequestRefusal("maintenance is on; end it with 'gantry cluster maintenance off' first")
    if view.is_full:
        return RequestRefusal("etcd is full, so nobody could take over; make room first")
    if wish.node:
        return _target_refused(view, wish.node)
    if fit_others(view):
        return None
    others = "; ".join(f"{name}: {_why_not(view, name)}" for name in sorted(view.others))
    may_pass = any(record.lacks_copies and record.priority > 0 for record in view.others.values())
    return RequestRefusal(f"no other node may become the master: {others or 'none lives'}", may_pass=may_pass)


def _target_refused(view: View, node: str) -> RequestRefusal | None:
    record = view.others.get(node)
    if record is None:
        return RequestRefusal(f"'{node}' is no candidate whose keeperd runs")
    # that it never becomes the master by itself is no obstacle to an operator
    reasons = [reason for reason in record.reasons if reason != NO_FAILOVER.reason]
    if not reasons:
        return None
    return RequestRefusal(f"'{node}' may not become the master: {', '.join(reasons)}", may_pass=record.lacks_copies)


def _why_not(view: View, node: str) -> str:
    return ", ".join(view.others[node].reasons) or "priority 0"


# Which candidate an operator means by a name.
#
# Source: DESIGN section 14.


def living_node(word: str, living: Sequence[str]) -> str:
    """Return the whole name of a candidate whose keeperd runs, for its name or a short form that no other one has.

    Args: word: empty, and then returned: any node is meant.
    Raises: Conflict: there is no such candidate; with the names of those that there are.
    """
    if not word or word in living:
        return word
    found = [name for name in living if word in short_names(name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"'{name}'" for name in sorted(living, key=natural_key)) or "none"
    which = "is the short name of several candidates" if found else "is no candidate whose keeperd runs"
    raise Conflict(f"'{word}' {which}; those are: {names}")
