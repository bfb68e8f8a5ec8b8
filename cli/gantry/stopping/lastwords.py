"""What `gantry down` tells of the mastership that this node had under a lease: pure.

Source: DESIGN section 14.
"""

from common.lease.records import Role
from protocol.keeperd.calls import ClusterView, MemberView


def last_words(view: ClusterView | None, left: int) -> str:
    """Who follows this node as the master, and what becomes of its jobs.

    Args:
        view: what its keeperd told before it was stopped; None: nothing.
        left: number of jobs that had a process.
    """
    jobs = "; commands on other nodes go on, jobs that ran on this node itself have failed" if left else ""
    return f"this node was the master: {_successor_words(view)}{jobs}"


def _successor_words(view: ClusterView | None) -> str:
    if view is None:
        return "another candidate follows it by itself, if one can; see 'gantry cluster' there"
    others = [member for member in view.members if member.name != view.asked]
    if not others:
        return "there is no other candidate, and nobody is the master until this node is up again"
    if view.maintenance:
        return "maintenance is on, and nobody follows it by itself; see 'gantry cluster maintenance'"
    able = [member.name for member in others if member.role is Role.REPLICA and member.priority]
    if able:
        return f"another candidate follows it by itself: {' or '.join(able)}"
    states = ", ".join(f"{member.name} is {_why_not(member)}" for member in others)
    return f"no other candidate can follow it now: {states}; see 'gantry cluster' there"


def _why_not(member: MemberView) -> str:
    return member.role.value if member.priority else f"{member.role.value}, but never the master by itself"
