"""The mastership and all that have a part in it, as lines of text: pure.

Source: DESIGN section 14.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click

from cli.tables import Column, Layout, render
from common.lease.records import Role
from common.printable import printable
from common.words.times import clock, duration
from protocol.keeperd.calls import ClusterView, EtcdMemberView, MemberView

_WIDTH: Final = 80
# changes of the master that are shown; JSON has all
_CHANGES: Final = 5
_UNITS: Final = ("B", "K", "M", "G", "T")
_COLORS: Final = {
    Role.MASTER: "green",
    Role.CHANGING: "yellow",
    Role.WAS_MASTER: "yellow",
    Role.BARRED: "yellow",
    Role.DOUBT: "red",
    Role.SILENT: "red",
}


def _role_style(text: str) -> str:
    color = next((color for role, color in _COLORS.items() if role.value == text), None)
    return text if color is None else click.style(text, fg=color)


_MEMBERS: Final = (
    Column("NODE"),
    Column("ROLE", style=_role_style),
    Column("STATE"),
    Column("EPOCH", is_number=True),
    Column("COPIES"),
    Column("LAG"),
    Column("SINCE", is_number=True),
)
_ETCD: Final = (Column("ETCD"), Column("ROLE"), Column("VERSION"), Column("SIZE", is_number=True), Column("ENDPOINT"))
_HISTORY: Final = (Column("CHANGED"), Column("EPOCH", is_number=True), Column("MASTER"), Column("CAUSE"))


def cluster_lines(view: ClusterView, *, has_color: bool) -> Iterator[str]:
    """All of it, at most 80 columns wide unless names are long; control characters are escaped."""
    layout = Layout(has_color=has_color)
    yield from _told(_master_words(view))
    if view.maintenance:
        yield from _told("maintenance: the mastership stays where it is; end it with: gantry cluster maintenance off")
    yield ""
    yield from render(_MEMBERS, [_member_cells(member) for member in view.members], layout)
    yield from _told(*_member_notes(view.members))
    yield ""
    yield from _etcd_lines(view, layout)
    if view.history:
        newest = sorted(view.history, key=lambda change: change.epoch)[-_CHANGES:]
        yield ""
        yield from render(
            _HISTORY, [[clock(each.at), str(each.epoch), each.node, each.cause] for each in newest], layout
        )
    if view.problems:
        yield ""
        yield from _told(*(f"problem: {problem}" for problem in view.problems))


def silence_words(view: ClusterView) -> str | None:
    """What it means that etcd does not reply; None: it does."""
    if view.etcd_heard_s is not None and view.etcd_heard_s <= view.ttl_s:
        return None
    since = "has never replied" if view.etcd_heard_s is None else f"has been silent for {view.etcd_heard_s:.0f} s"
    return (
        f"etcd {since} to '{view.asked}': nobody can become the master, and no change is acknowledged, until more than "
        "half of its members are back"
    )


def size_text(count: int) -> str:
    """`512B`, `38.1M`, `2.0G`: bytes in binary units."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count}B" if unit == 0 else f"{size:.1f}{_UNITS[unit]}"


def _told(*sentences: str) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(printable(sentence), _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _master_words(view: ClusterView) -> str:
    lease = f"lease of {view.ttl_s:g}s"
    if not view.master:
        return f"master: nobody, as '{view.asked}' knows it; last epoch {view.epoch}, {lease}"
    if view.valid_s is not None:
        lease = f"{lease}, valid for {duration(view.valid_s)} without a renewal"
    return f"master: {view.master}, epoch {view.epoch}, {lease}"


def _member_cells(member: MemberView) -> list[str]:
    is_master = member.role is Role.MASTER
    return [
        member.name,
        member.role.value,
        member.state,
        str(member.epoch) if member.epoch else "",
        "" if is_master else member.copies,
        "" if is_master else _lag(member),
        "" if member.since_s is None else duration(member.since_s),
    ]


def _lag(member: MemberView) -> str:
    parts = [] if not member.lag_files else [f"{member.lag_files} file{'' if member.lag_files == 1 else 's'}"]
    if member.config_behind:
        parts.append("config")
    if parts:
        return ", ".join(parts)
    is_known = member.lag_files is not None and member.config_behind is not None
    return "none" if is_known else "unknown"


def _member_notes(members: Sequence[MemberView]) -> Iterator[str]:
    """What the table has no room for."""
    for member in members:
        yield from (f"{member.name}: {reason}" for reason in member.reasons)
        if member.role is Role.SILENT:
            yield f"{member.name}: its keeperd does not run, or does not reach etcd; see 'gantry status' there"
        if member.role is Role.WAS_MASTER:
            age = "" if member.since_s is None else f", {duration(member.since_s)} ago"
            yield f"{member.name}: its last word was '{member.state}'{age}; the mastership is not its own"
        if member.priority == 0:
            yield f"{member.name}: never becomes the master by itself, as its settings say"
    if len({member.release for member in members if member.release}) > 1:
        yield f"releases differ: {_listed((member.name, member.release) for member in members if member.release)}"
    able = sorted((member for member in members if member.priority), key=lambda each: (-each.priority, each.name))
    if len({member.priority for member in able}) > 1:
        yield f"priorities, the highest goes first: {_listed((each.name, str(each.priority)) for each in able)}"


def _listed(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in pairs)


def _etcd_lines(view: ClusterView, layout: Layout) -> Iterator[str]:
    if view.etcd:
        yield from render(_ETCD, [_etcd_cells(member) for member in view.etcd], layout)
        yield from _told(*(f"{each.name or each.endpoint}: {each.failure}" for each in view.etcd if each.failure))
    if (silence := silence_words(view)) is not None:
        yield from _told(silence)
    if view.alarms:
        yield from _told(f"alarms of etcd: {', '.join(view.alarms)}")
    if view.dirty is not None:
        yield from _told(f"changes kept in etcd, as some candidate may lack them: {view.dirty}")


def _etcd_cells(member: EtcdMemberView) -> list[str]:
    if not member.version:
        return [member.name, "silent", "", "", member.endpoint]
    size = size_text(member.db_bytes)
    if member.quota_bytes:
        size = f"{size} of {size_text(member.quota_bytes)}"
    return [member.name, "leader" if member.is_leader else "follower", member.version, size, member.endpoint]
