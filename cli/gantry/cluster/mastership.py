"""The verbs of `gantry cluster` that show and move the mastership."""

import select
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import attrs
import click

from cli.commands import Command
from cli.context import command_line, installation, up_command, uses_color, wants_json
from cli.exitcodes import (
    DONE,
    INTERRUPTED,
    MOVING,
    NOT_CONFIRMED,
    NOT_REACHED,
    REFUSED_SWITCHOVER,
    REFUSED_TAKEOVER,
    TIME_OVER,
)
from cli.options import DURATION, complete_candidate
from cli.screen import complain, confirm, remark, say, say_json, say_result, say_styled, show_note
from cli.tables import Column, Layout, render
from common.errors import Conflict, GantryError, RemoteError, Unavailable
from common.lease.records import Role
from common.nodes.nodeplace import candidate_names
from common.objects.kinds import short_names
from common.printable import printable
from common.settings import Settings
from common.system.running import find_daemon
from common.words.times import bare_clock, clock, duration
from protocol.blocking import BlockingClient
from protocol.keeperd import (
    ClusterView,
    EtcdMemberView,
    MemberView,
    SetMaintenance,
    ShowCluster,
    Switchover,
    Takeover,
    TestWatchdog,
)
from protocol.messages import Request

# The mastership and all that have a part in it, as lines of text: pure.
#
# Source: DESIGN section 14.


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


# The keeperd of this node, as operators' commands ask it; and what to do where there is none.
#
# Source: DESIGN section 14.


R = TypeVar("R")

# seconds; keeperd replies from memory, but for what it asks etcd's members
_REPLY_S: Final = 30.0
_SETTINGS: Final = 'replication = "etcd" in [cluster] of gantry.toml'


def open_keeperd() -> BlockingClient:
    """Return a client of this node's keeperd; it connects at its first call.

    Raises: Conflict: the cluster has no lease; the message says what to use instead. Else as `installation`.
    """
    settings = installation()
    check_has_lease(settings)
    return BlockingClient(settings.paths.keeperd_socket, connect_timeout_s=0, daemon="keeperd", noted=show_note)


def check_has_lease(settings: Settings) -> None:
    """Raises: Conflict: the cluster has none."""
    if settings.cluster.has_lease:
        return
    if settings.cluster.has_nodes:
        raise Conflict(
            "this cluster has no lease: its master is moved by hand, by 'gnt-cluster master-failover' on the node that "
            f"is to be it; 'gnt-cluster getmaster' tells the master; for a lease see deploy/etcd, and {_SETTINGS}"
        )
    raise Conflict(
        "this cluster has one machine, and nobody could follow it; see 'gantry status' for its daemons; "
        f"for several machines and a lease see deploy/etcd, and {_SETTINGS}"
    )


def ask(request: Request[R], client: BlockingClient | None = None, *, timeout_s: float = _REPLY_S) -> R:
    """Call this node's keeperd. Args: client: None: one for this call.

    Raises: as `open_keeperd` and `BlockingClient.call`; the message says what to do where keeperd is not reached.
    """
    try:
        if client is not None:
            return client.call(request, timeout_s=timeout_s)
        with open_keeperd() as own:
            return own.call(request, timeout_s=timeout_s)
    except RemoteError:
        raise
    except Unavailable as error:
        raise Unavailable(not_reached_words(error)) from error


def not_reached_words(error: Unavailable) -> str:
    """What to do where this node's keeperd was not reached."""
    settings = installation()
    candidates = candidate_names(settings.paths)
    if candidates and settings.cluster.own_name not in candidates:
        return f"this node is no master candidate, and has no keeperd; run the command on {', '.join(candidates)}"
    if not _runs(settings):
        return f"keeperd is not running on this node; start it with: {up_command()}"
    log = settings.paths.log_file("keeperd")
    return f"{error.message}; see: {command_line('gantry', 'status')}; tail {log}"


def with_silence(error: RemoteError) -> str:
    """The words of an error, and a word on etcd if that is silent, which is then the cause."""
    try:
        silence = silence_words(ask(ShowCluster()))
    except (GantryError, OSError):
        silence = None
    return error.message if silence is None else f"{error.message}; {silence}"


def _runs(settings: Settings) -> bool:
    try:
        return find_daemon(settings.paths, "keeperd") is not None
    except PermissionError:
        # its pid file is not for this user
        return True


# `gantry cluster` without a verb: who is the master, who could follow it, and how etcd does.


def show_cluster() -> int:
    """Print what this node's keeperd knows. Returns: the exit code; 3: no node is the master."""
    view = ask(ShowCluster())
    if wants_json():
        say_json(view_json(view))
    else:
        show_lines(view)
    return DONE if view.master else NOT_REACHED


def show_lines(view: ClusterView) -> None:
    for line in cluster_lines(view, has_color=uses_color()):
        say_styled(line)


def view_json(view: ClusterView) -> object:
    """All fields, also those at their defaults."""
    return attrs.asdict(view, value_serializer=lambda _, __, value: value.value if isinstance(value, Role) else value)


# The shape of commands that move the mastership: their help ends with the table of their exit codes.


class ClusterCommand(Command):
    EXIT_CODES = MOVING

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(row.code, row.meaning) for row in MOVING])
        super().format_epilog(ctx, formatter)


# Ask keeperd to move the mastership, and show what happens until the new master serves.
#
# Source: DESIGN section 14; lease.md 7.


# time between two looks at the cluster while keeperd has not replied
_LOOK_S: Final = 1.0
# limit of a reply that has begun to arrive
_READ_S: Final = 30.0
_GOES_ON: Final = "what was asked goes on without this command; see: gantry cluster"


class MastershipCall:
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
            text = f"keeperd does not report its state: {error.message}"
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
        say_result(
            {"master": master, "before": before.master, "epoch": after.epoch},
            f"'{master}' is the master now, epoch {after.epoch}",
        )
        return DONE


def progress_words(view: ClusterView, wanted: str) -> str:
    """How far a move is: a line, and one for each thing that is waited for. Args: wanted: node; empty: any."""
    changing = [f"{each.name} {each.state}" for each in view.members if each.role in (Role.MASTER, Role.CHANGING)]
    who = ", ".join(changing) or "no node is the master"
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


# `gantry cluster switchover`: move the mastership to another healthy node; no acknowledged work is lost.


@click.command(
    "switchover",
    cls=ClusterCommand,
    examples=(
        "gantry cluster switchover",
        "gantry cluster switchover node2 --limit 10m",
        "gantry cluster switchover --kill     # jobs on the master are killed, not waited for",
    ),
)
@click.option("--kill", is_flag=True, help="Kill the jobs that run on the master itself; else they are waited for.")
@click.option("--limit", type=DURATION, default=0.0, help="Give up after this time, as in 10m; 0 (default): never.")
@click.argument("node", required=False, default="", shell_complete=complete_candidate)
def switchover(node: str, kill: bool, limit: float) -> int:
    """Move the mastership to NODE, or to the best node, and wait until it serves.

    Only to a node that is healthy and has all copies; one whose copies are being compared, as after another
    move, is waited for up to a minute. New jobs wait meanwhile, commands on nodes go on, and no job fails.
    Ctrl-C ends the waiting only.
    """
    return MastershipCall(Switchover(node, kill, limit), "switchover", REFUSED_SWITCHOVER).carry_out()


# `gantry cluster takeover`: make a node the master although the old one, or copies, may be lost.


@click.command("takeover", cls=ClusterCommand, examples=("gantry cluster takeover --i-accept-loss node2",))
@click.option(
    "--i-accept-loss",
    "accepts_loss",
    is_flag=True,
    help="Needed: what NODE lacks is lost, and jobs that run on the old master fail.",
)
@click.argument("node", shell_complete=complete_candidate)
def takeover(node: str, accepts_loss: bool) -> int:
    """Make NODE the master without the old one's help, and wait until it serves.

    For a cluster in maintenance whose master has died, or whose only nodes left are barred or were away too
    long. If the master is healthy, use switchover. Ctrl-C ends the waiting only.
    """
    if not accepts_loss:
        raise click.UsageError(
            f"a takeover may lose work; move a healthy mastership with 'gantry cluster switchover {node}', or, if that "
            f"is refused, say: gantry cluster takeover --i-accept-loss {node}"
        )
    return MastershipCall(Takeover(node), "takeover", REFUSED_TAKEOVER).carry_out()


# `gantry cluster maintenance`: let the mastership stay where it is, whatever happens; or no longer.


_WORDS = {
    True: "maintenance is on: the mastership stays where it is; if the master dies, none follows it by itself, and "
    "'gantry cluster takeover' names one",
    False: "maintenance is off: if the master dies, another candidate follows it by itself",
}


@click.command("maintenance", cls=Command, examples=("gantry cluster maintenance on", "gantry cluster maintenance off"))
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
def maintenance(state: str | None) -> int:
    """Switch maintenance on or off, or tell whether it is on.

    In maintenance no other node becomes the master by itself, for example while etcd or the network are worked
    on. All else goes on: the lease is renewed, and the master still stops when it cannot renew it.
    """
    if state is not None:
        ask(SetMaintenance(state == "on"))
    is_on = ask(ShowCluster()).maintenance if state is None else state == "on"
    say_result({"maintenance": is_on}, _WORDS[is_on])
    return DONE


# `gantry cluster test-watchdog`: restart this machine by its watchdog, as a test.
#
# Source: lease.md 6.


@click.command("test-watchdog", cls=Command, examples=("gantry cluster test-watchdog",))
def test_watchdog() -> int:
    """Stop feeding the watchdog of THIS machine: it restarts at once, without warning, if the watchdog works.

    All that runs here is lost, jobs too. It asks twice, and only a terminal can answer.
    """
    settings = installation()
    check_has_lease(settings)
    name, device = settings.cluster.own_name, settings.keeperd.watchdog
    if not device:
        raise Conflict("this node has no watchdog: set 'watchdog' in [keeperd] of gantry.toml, such as /dev/watchdog")
    questions = (
        f"This machine, '{name}', will be restarted by {device}; all that runs here is lost. Go on?",
        f"Really restart '{name}' now?",
    )
    if not all(map(confirm, questions)):
        remark("nothing was done")
        return NOT_CONFIRMED
    ask(TestWatchdog())
    say_result(
        {"node": name, "watchdog": device},
        f"{device} is not fed any more; if this machine still runs in a minute, the watchdog does not work",
    )
    return DONE


# What `gantry down` tells of the mastership that this node had under a lease: pure.
#
# Source: DESIGN section 14.


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
        return "there is no other candidate, and no node is the master until this node is up again"
    if view.maintenance:
        return "maintenance is on, and nobody follows it by itself; see 'gantry cluster maintenance'"
    able = [member.name for member in others if member.role is Role.REPLICA and member.priority]
    if able:
        return f"another candidate follows it by itself: {' or '.join(able)}"
    states = ", ".join(f"{member.name} is {_why_not(member)}" for member in others)
    return f"no other candidate can follow it now: {states}; see 'gantry cluster' there"


def _why_not(member: MemberView) -> str:
    return member.role.value if member.priority else f"{member.role.value}, but never the master by itself"
