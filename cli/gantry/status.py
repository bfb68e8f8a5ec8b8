"""`gantry status`: which daemons run, since when, and what the queue holds."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
import click

from cli.clusterstate.locks import as_json, known_orphans, orphans_line
from cli.clusterstate.masterships import etcd_line, known_fullness, known_mastership, mastership_json, mastership_line
from cli.clusterstate.problems import (
    ANSWER_S,
    ask_lags,
    find_problems,
    lag_words,
    lags_json,
    last_config_verdicts,
    last_verdicts,
    status_words,
    verdicts_json,
)
from cli.clusterstate.problems import as_json as as_findings
from cli.commands import MachineCommand
from cli.connection import ask_luxid, open_luxid, open_wconfd
from cli.context import command_line, installation, up_command, use_what_can_be_read, wants_json
from cli.exitcodes import DONE, NOT_REACHED
from cli.query import jobs_now
from cli.screen import complain, remark, say, say_json, warn
from cli.tables import Column, say_table
from common.daemons import MASTER_DAEMONS, Daemon, Feature, start_order
from common.errors import GantryError, RemoteError, SilentDaemon
from common.health import Finding, Level, in_order, summary_line, worst
from common.nodes.nodeplace import daemons_here, why_not_master
from common.paths import Paths
from common.queue.jobs import JobState
from common.schedules.times import offset_of
from common.settings import Settings
from common.system.processes import running_commands
from common.system.running import RunningDaemon, find_daemon, find_supervisor, last_failure
from common.words.times import clock, duration
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import ListSchedules, ScheduleView
from protocol.unixsocket import dial
from protocol.wconfd.locks import Echo

# How each daemon of this node is, as a user of the installation can see it.


@attrs.frozen
class DaemonStatus:
    """A daemon of this node."""

    name: str
    running: RunningDaemon | None
    # whether it replies to calls
    is_ready: bool
    # whether its pid file is unreadable for this user
    is_hidden: bool = False
    # whether it accepted the call but did not reply in time
    is_silent: bool = False
    # why one that the others can do without did not start; None: it is not known
    why_down: str | None = None

    @property
    def state(self) -> str:
        if self.is_ready:
            return "ready"
        if self.is_silent:
            return "silent"
        return "unknown" if self.is_hidden else "down" if self.running is None else "starting"


def daemon_status(paths: Paths, daemon: Daemon) -> DaemonStatus:
    """Ask a daemon, which may take some seconds if it is silent."""
    name, is_hidden = daemon.name, False
    try:
        running = find_daemon(paths, name)
    except PermissionError:
        running, is_hidden = None, True
    # a daemon without a socket is known by its pid file only
    may_be_up = running is not None or (is_hidden and daemon.socket is not None)
    try:
        is_ready = may_be_up and _answers(paths, daemon)
    except SilentDaemon:
        return DaemonStatus(name, running, is_ready=False, is_hidden=is_hidden, is_silent=True)
    why_down = None if is_ready or daemon.is_needed else last_failure(paths.log_file(name))
    return DaemonStatus(name, running, is_ready, is_hidden, why_down=why_down)


def _answers(paths: Paths, daemon: Daemon) -> bool:
    """Whether a running daemon replies. Raises: SilentDaemon: it accepted the call."""
    try:
        match daemon.name:
            case "luxid":
                with open_luxid(is_patient=False) as luxid:
                    luxid.call(QueryConfigValues(()), timeout_s=ANSWER_S)
            case "wconfd":
                with open_wconfd(is_patient=False) as wconfd:
                    wconfd.call(Echo("status"), timeout_s=ANSWER_S)
            case name if daemon.socket is not None:
                dial(paths.socket(name), name).close()
            case _:
                # its process is there, and nothing can be asked
                pass
    except RemoteError:
        # the reply is a refusal: this user may not ask
        return True
    except SilentDaemon:
        raise
    except GantryError:
        return False
    return True


def is_ready(daemons: Sequence[DaemonStatus], name: str) -> bool:
    return any(daemon.name == name and daemon.is_ready for daemon in daemons)


def is_down(daemons: Sequence[DaemonStatus], name: str) -> bool:
    return any(daemon.name == name and not daemon.is_ready and not daemon.is_hidden for daemon in daemons)


def what_is_wrong(daemons: Sequence[DaemonStatus], paths: Paths, *, has_supervisor: bool) -> str:
    """Why not all of these daemons are ready, and what to do; at least one is not."""
    missing = [daemon for daemon in daemons if not daemon.is_ready]
    if (why := missing[0].why_down) is not None and len(missing) == 1:
        what = "it is tried again, and" if has_supervisor else f"start it with: {up_command()};"
        return f"{missing[0].name} did not start: {why}; {what} all else runs"
    names = [daemon.name for daemon in missing]
    which = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
    if silent := [daemon for daemon in daemons if daemon.is_silent]:
        name, running = silent[0].name, silent[0].running
        which = f"'{paths.log_file(name)}'" + (f" and 'cat /proc/{running.pid}/stack'" if running else "")
        return f"{name} gave no answer for {ANSWER_S:g} s; is it stopped, or its disk? {which} may tell"
    if any(daemon.is_hidden and not daemon.is_ready for daemon in daemons):
        return (
            f"{which} not reached, and this user may not read the pid files in '{paths.run}'; "
            f"ask to be in the group of '{paths.sockets}', or try as its owner"
        )
    if has_supervisor:
        return f"{which} not ready; the supervisor starts what ended again, look once more in a moment"
    if has_lost_supervisor(paths):
        return f"{which} not ready, and no supervisor starts it again; start all anew with: {_anew()}"
    return f"{which} not ready; start with: {up_command()}"


def _anew() -> str:
    return f"{command_line('gantry', 'down')}; {up_command()}"


# The schedules in a line, for `gantry status`.


def known_schedules() -> Sequence[ScheduleView]:
    """All schedules, each with its next run; none, if luxid cannot tell."""
    try:
        return ask_luxid(ListSchedules(1))
    except GantryError:
        return ()


def schedules_line(views: Sequence[ScheduleView], now: float) -> str:
    """`schedules: 12 (1 paused, 1 stopped), nightly next in 3h12m`."""
    paused = sum(view.schedule.is_paused for view in views)
    stopped = sum(bool(view.stopped) for view in views)
    odd = [f"{count} {what}" for count, what in ((paused, "paused"), (stopped, "stopped")) if count]
    line = f"schedules: {len(views)}" + (f" ({', '.join(odd)})" if odd else "")
    first = _first(views)
    if first is None:
        return line
    return f"{line}, {first.schedule.name} next in {duration(max(_due_at(first) - now, 0))}"


def schedules_json(views: Sequence[ScheduleView]) -> Mapping[str, object]:
    first = _first(views)
    return {
        "count": len(views),
        "paused": sum(view.schedule.is_paused for view in views),
        "stopped": [view.schedule.name for view in views if view.stopped],
        "next": None if first is None else {"name": first.schedule.name, "at": _due_at(first)},
    }


def _first(views: Sequence[ScheduleView]) -> ScheduleView | None:
    return min((view for view in views if view.next_at), key=_due_at, default=None)


def _due_at(view: ScheduleView) -> float:
    return view.next_at[0] + offset_of(view.schedule)


_COLUMNS = (Column("DAEMON"), Column("STATE"), Column("PID", is_number=True), Column("SINCE"))


@click.command(
    "status",
    cls=MachineCommand,
    examples=("gantry --root ~/try status", "gantry status --output json | jq .jobs", "gantry status --check"),
)
@click.option("--check", "is_check", is_flag=True, help="For monitors: one line, and the exit codes 0, 1, 2 and 3.")
def status(is_check: bool) -> int:
    """Tell which daemons run, what the queue holds and what is not well; the exit code is 3 if one is known to be down.

    With --check the exit code is 0 if all is well, 1 for a warning, 2 if it is critical (a daemon is down, a disk is
    full), 3 if it is not known. '[health]' in the settings says from when a disk counts as nearly full.
    """
    fault = use_what_can_be_read()
    if is_check:
        return check_health(installation(), fault)
    if fault is not None:
        warn(f"{fault.message}; daemons that run go on, and do not start again until it is fixed")
    return tell_status(installation(), fault)


def check_health(settings: Settings, fault: GantryError | None = None) -> int:
    """Print how well the daemons of this node are; return the level as the exit code.

    Args: fault: what is wrong with the settings file.
    """
    findings = list(_daemon_findings(settings))
    if fault is not None:
        findings.append(Finding(Level.WARNING, "settings", fault.message, "fix the file: no daemon starts with it"))
    if not any(finding.text.startswith("luxid ") for finding in findings):
        is_silent = any(finding.text == "wconfd is silent" for finding in findings)
        findings += find_problems(settings, is_wconfd_silent=is_silent)
    level = worst(findings)
    if wants_json():
        say_json({"level": level.word, "findings": as_findings(in_order(findings))})
        return level
    say(summary_line(level, findings))
    for finding in in_order(findings)[1:]:
        say(f"{finding.level.word}: {finding.what}: {finding.text}")
    return level


def _daemon_findings(settings: Settings) -> Iterator[Finding]:
    """Daemons that are down or silent, or that this user cannot see."""
    is_left = why_not_master(settings) is not None
    for daemon in daemons_here(settings):
        if is_left and daemon.name in MASTER_DAEMONS:
            continue
        found = daemon_status(settings.paths, daemon)
        if found.is_ready:
            continue
        level = Level.UNKNOWN if found.is_hidden else Level.CRITICAL
        # other users reach luxid only, which tells of the rest
        if level is Level.CRITICAL or daemon.name == "luxid":
            yield Finding(level, "daemons", f"{daemon.name} is {found.state}", "see: gantry status")
    if has_lost_supervisor(settings.paths):
        yield _supervisor_gone()


def _supervisor_gone() -> Finding:
    text = "their supervisor was killed, and one that ends now stays down"
    return Finding(Level.WARNING, "daemons", text, f"start all anew with: {_anew()}")


def has_lost_supervisor(paths: Paths) -> bool:
    """Whether a supervisor was killed, and daemons that it kept still run; its own end removes its pid file."""
    try:
        if not paths.supervisor_pid_file.exists() or find_supervisor(paths) is not None:
            return False
        return any(find_daemon(paths, daemon.name) is not None for daemon in start_order(features=list(Feature)))
    except PermissionError:
        return False


@attrs.frozen
class _StatusPart:
    """A part of the status: its fields in JSON, and its lines; a line that is empty is left out."""

    fields: Mapping[str, object]
    lines: Sequence[str] = ()


def tell_status(settings: Settings, fault: GantryError | None = None) -> int:
    """Print the state of the daemons; return the exit code.

    Not for a process that holds a pid file: closing the file would release the locks that the process has on it.

    Args: fault: what is wrong with the settings file.
    """
    paths, why_left = settings.paths, why_not_master(settings)
    daemons = [daemon_status(paths, daemon) for daemon in daemons_here(settings)]
    if why_left is not None:
        # those of the master are not missed here; one that is there is ending, or was started by hand
        daemons = [each for each in daemons if each.name not in MASTER_DAEMONS or each.running is not None]
    # other users reach luxid only, and cannot know whether the other daemons run
    lacks_luxid = not is_ready(daemons, "luxid") and any(daemon.name == "luxid" for daemon in daemons)
    is_up = not lacks_luxid and all(daemon.is_ready or daemon.is_hidden for daemon in daemons)
    if not is_up:
        paths.check_socket_paths()
    supervisor = _supervisor(paths)
    parts = list(_parts(settings, daemons, why_left))
    if wants_json():
        told = {
            **_as_json(daemons, supervisor),
            **{name: value for part in parts for name, value in part.fields.items()},
        }
        say_json({**told, "settings_fault": fault.message} if fault is not None else told)
    else:
        say_table(_COLUMNS, [_cells(*_row(daemon)) for daemon in daemons])
        for line in (line for part in parts for line in part.lines if line):
            say(line)
    if not is_up:
        complain(what_is_wrong(daemons, paths, has_supervisor=supervisor is not None))
    elif hidden := [daemon.name for daemon in daemons if not daemon.is_ready]:
        folders = dict.fromkeys(f"'{paths.pid_file(name).parent}'" for name in hidden)
        remark(f"whether {' and '.join(hidden)} run is told to root and to the owner of {' and '.join(folders)}")
    return DONE if is_up else NOT_REACHED


def _parts(settings: Settings, daemons: Sequence[DaemonStatus], why_left: str | None) -> Iterator[_StatusPart]:
    """What there is to tell beside the daemons, in the order of its lines."""
    has_luxid, has_wconfd = is_ready(daemons, "luxid"), is_ready(daemons, "wconfd")
    mastership = known_mastership() if is_ready(daemons, "keeperd") else None
    if mastership is not None:
        lines = [mastership_line(mastership), etcd_line(mastership, known_fullness())]
        yield _StatusPart({"mastership": mastership_json(mastership)}, lines)
    yield _queue() if has_luxid else _StatusPart({"jobs": None, "drained": None})
    if has_luxid and not is_down(daemons, "wconfd") and (schedules := known_schedules()):
        yield _StatusPart({"schedules": schedules_json(schedules)}, [schedules_line(schedules, time.time())])
    if settings.cluster.has_nodes and (commands := _commands_here(settings.paths)) is not None:
        line = f"commands of jobs on this node: {commands} run{'s' if commands == 1 else ''}" if commands else ""
        yield _StatusPart({"commands_here": commands}, [line])
    if is_ready(daemons, "rapid"):
        http = settings.rapid.url(settings.cluster.own_name)
        yield _StatusPart({"http": http}, [f"http: {http}"])
    if has_wconfd and (orphans := known_orphans()):
        yield _StatusPart({"ghosts": [as_json(orphan) for orphan in orphans]}, [orphans_line(orphans)])
    if has_luxid and (lags := ask_lags()) is not None:
        verdicts = last_verdicts() or ()
        lines = [f"copies: {lag_words(lag)}" for lag in lags]
        if verdicts and not lags:
            lines = [f"copies: queue {status_words(verdicts)}"]
        yield _StatusPart({"queue_lags": lags_json(lags), "queue_verdicts": verdicts_json(verdicts)}, lines)
    if settings.cluster.has_nodes and has_wconfd and (found := last_config_verdicts()):
        yield _StatusPart({"config_verdicts": verdicts_json(found)}, [f"copies: configuration {status_words(found)}"])
    yield _StatusPart({"not_master": why_left}, [why_left or ""] if mastership is None else ())
    is_silent = any(daemon.name == "wconfd" and daemon.is_silent for daemon in daemons)
    findings = [_supervisor_gone()] if has_lost_supervisor(settings.paths) else []
    findings += find_problems(settings, is_wconfd_silent=is_silent) if has_luxid else []
    if findings := in_order(findings):
        lines = [f"{each.level.word}: {each.what}: {each.text}; {each.remedy}" for each in findings]
        yield _StatusPart({"health": as_findings(findings)}, lines)


def _commands_here(paths: Paths) -> int | None:
    """How many commands of jobs run on this node; None: only the owner of the installation can see that."""
    try:
        return len(running_commands(paths.node_commands))
    except PermissionError:
        return None


def _supervisor(paths: Paths) -> RunningDaemon | None:
    try:
        return find_supervisor(paths)
    except PermissionError:
        return None


def _row(daemon: DaemonStatus) -> tuple[str, str, RunningDaemon | None]:
    return daemon.name, daemon.state, daemon.running


def _cells(name: str, state: str, running: RunningDaemon | None) -> list[str]:
    return [name, state, str(running.pid) if running else "", clock(running.since) if running else ""]


def _queue() -> _StatusPart:
    """How many jobs are in each state; states without jobs are left out."""
    counted = Counter(row["status"] for row in jobs_now(None, ("status",)))
    jobs = {state.value: counted[state.value] for state in JobState if counted[state.value]}
    counts = ", ".join(f"{count} {state}" for state, count in jobs.items()) or "empty"
    drained = ask_luxid(QueryConfigValues(("drain_flag",)))[0]
    return _StatusPart(
        {"jobs": jobs, "drained": drained}, [f"queue: {counts}{'; drained, it takes no jobs' if drained else ''}"]
    )


def _why(daemon: DaemonStatus) -> dict[str, str]:
    return {} if daemon.why_down is None else {"reason": daemon.why_down}


def _as_json(daemons: Sequence[DaemonStatus], supervisor: RunningDaemon | None) -> dict[str, object]:
    def place(running: RunningDaemon | None) -> dict[str, object]:
        return {"pid": running.pid if running else None, "since": running.since if running else None}

    return {
        "ready": all(daemon.is_ready for daemon in daemons),
        "daemons": {
            daemon.name: {"state": daemon.state, **place(daemon.running), **_why(daemon)} for daemon in daemons
        },
        "supervisor": place(supervisor),
    }
