"""Ask keeperd to move the mastership, and show what happens until the new master serves.

Source: DESIGN section 14; lease.md 7.
"""

import select
import time
from collections.abc import Sequence
from typing import Final

from cli.context import wants_json
from cli.exitcodes import DONE, INTERRUPTED, TIME_OVER
from cli.gantry.cluster.asking import ask, not_reached_words, open_keeperd, with_silence
from cli.screen import complain, remark, say, say_json
from common.errors import GantryError, RemoteError, Unavailable
from common.lease.records import Role
from common.objects.naming import short_names
from common.words.times import bare_clock
from protocol.blocking import BlockingClient
from protocol.keeperd.calls import ClusterView, MemberView, ShowCluster, Switchover, Takeover

# time between two looks at the cluster while keeperd has not replied
_LOOK_S: Final = 1.0
# limit of a reply that has begun to arrive
_READ_S: Final = 30.0
_GOES_ON: Final = "what was asked goes on without this command; see: gantry cluster"


class Move:
    """One call that moves the mastership, and what is shown meanwhile.

    Args:
        name: what the call is, for messages.
        refused: exit code where keeperd refuses it, and nothing was changed.
    """

    def __init__(self, request: Switchover | Takeover, name: str, refused: int) -> None:
        self._request = request
        self._name = name
        self._refused = refused
        # last line of progress
        self._shown = ""

    def carry_out(self) -> int:
        """Ask, show, and wait. Returns: the exit code.

        Raises: Conflict: there is no lease. Unavailable: no keeperd here.
        Cancellation: Ctrl-C ends the waiting only, and that is told.
        """
        with open_keeperd() as looking, open_keeperd() as asking:
            before = ask(ShowCluster(), looking)
            try:
                master = self._wait(looking, asking)
            except RemoteError as error:
                return self._refuse(error)
            except Unavailable as error:
                complain(f"{not_reached_words(error)}; {_GOES_ON}")
                return TIME_OVER
            except KeyboardInterrupt:
                remark(f"no longer waiting; {_GOES_ON}")
                return INTERRUPTED
            return self._tell_end(before, ask(ShowCluster(), looking), master)

    def _wait(self, looking: BlockingClient, asking: BlockingClient) -> str:
        asking.start(self._request)
        while not select.select([asking], [], [], _LOOK_S)[0]:
            self._show(looking)
        return asking.finish(self._request, timeout_s=_READ_S)

    def _show(self, looking: BlockingClient) -> None:
        """A line, if it differs from the last one."""
        try:
            text = progress_words(looking.call(ShowCluster(), timeout_s=_READ_S), self._request.node)
        except GantryError as error:
            text = f"keeperd does not say how it stands: {error.message}"
        if text != self._shown:
            self._shown = text
            _tell(f"{bare_clock(time.time())[11:]}  {text}")

    def _refuse(self, error: RemoteError) -> int:
        if error.code == Unavailable.code:
            # asked, and not over in time
            complain(f"{with_silence(error)}; see: gantry cluster")
            return TIME_OVER
        complain(f"the {self._name} was refused, nothing was changed: {error.message}")
        return self._refused

    def _tell_end(self, before: ClusterView, after: ClusterView, master: str) -> int:
        if wants_json():
            say_json({"master": master, "before": before.master, "epoch": after.epoch})
        else:
            say(f"'{master}' is the master now, epoch {after.epoch}")
        return DONE


def progress_words(view: ClusterView, wanted: str) -> str:
    """How far a move is: a line, and one for each thing that is waited for. Args: wanted: node; empty: any."""
    changing = [f"{each.name} {each.state}" for each in view.members if each.role in (Role.MASTER, Role.CHANGING)]
    who = ", ".join(changing) or "nobody is the master"
    waiting = "" if not view.dirty else f"; {view.dirty} change{'s' if view.dirty > 1 else ''} in etcd"
    why = "".join(f"\n  {each.name} {reason}" for each in view.members for reason in _leaving(each))
    if not any(each.role is Role.CHANGING for each in view.members):
        why += "".join(f"\n  {each.name} waits: {reason}" for each in _barred(view, wanted) for reason in each.reasons)
    return f"epoch {view.epoch}: {who}{waiting}{why}"


def _leaving(member: MemberView) -> Sequence[str]:
    """What a master that makes way waits for."""
    return member.reasons if member.role is Role.CHANGING else ()


def _barred(view: ClusterView, wanted: str) -> Sequence[MemberView]:
    """The node that is to be the master, or all that could be, if none may be it yet."""
    if wanted:
        return [
            each for each in view.members if each.role is Role.BARRED and wanted in (each.name, *short_names(each.name))
        ]
    is_open = any(each.role is Role.REPLICA and each.priority for each in view.members)
    return [] if is_open else [each for each in view.members if each.role is Role.BARRED]


def _tell(text: str) -> None:
    # lines of progress are no part of a result in JSON
    (remark if wants_json() else say)(text)
