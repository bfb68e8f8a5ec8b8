"""`gnt-cluster verify`: check the configuration and the files of this node."""

import os
import stat
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click
import orjson

from cli.clusterstate.locks import ask_lock_view, left_processes
from cli.clusterstate.problems import (
    ANSWER_S,
    CopyFindings,
    ask_lags,
    asked,
    check_config,
    check_queue,
    find_problems,
    lag_words,
)
from cli.commands import Command
from cli.connection import ask_luxid, ask_wconfd, open_luxid, with_next_step
from cli.context import command_line, installation, paths, wants_json
from cli.exitcodes import DONE, FAILED
from cli.options import complete_group
from cli.screen import complain, say_json
from cli.tables import Column, say_table
from common.daemons import Feature, NodeKind, start_order
from common.errors import ConfigVerifyError, Denied, GantryError, RemoteError, SilentDaemon, Unavailable
from common.health import Finding, Level
from common.nodes.nodeplace import place_of, why_not_master
from common.opcodes.types import VERIFY_ERRORS
from common.paths import QUEUE_VERSION, Paths
from protocol.luxi.daemon import Repair
from protocol.unixsocket import dial
from protocol.wconfd.config import ListNodesBehind, VerifyConfig

# Faults in the files of an installation, as far as the calling user may read them.
#
# Source: luxid.md 3; wconfd.md 1.1, 3.2, 6.1.


# bytes of the largest job that luxid accepts, with its log; the settings can raise it (`max_job_bytes`)
JOB_BYTES: Final = 2 * 2**20
# files of one job: job file, log, output, lock and messages, each with a temporary one
FILES: Final = 16


def check_files(paths: Paths, *, place: NodeKind = NodeKind.MASTER, has_web: bool = False) -> Mapping[str, list[str]]:
    """Return the problems by name of the check; an empty list: none were found.

    Args:
        place: of this node; it tells which daemons are to run.
        has_web: whether rapid is to run.
    """
    sockets = partial(_sockets, place=place, has_web=has_web)
    checks: Mapping[str, Callable[[Paths], Iterator[str]]] = {**_CHECKS, "sockets": sockets}
    return {name: list(_tolerant(check, paths)) for name, check in checks.items()}


def _tolerant(check: Callable[[Paths], Iterator[str]], paths: Paths) -> Iterator[str]:
    try:
        yield from check(paths)
    except OSError as error:
        place = f"'{error.filename}': " if error.filename else ""
        yield f"{place}{(error.strerror or str(error)).lower()}"


def _config(paths: Paths) -> Iterator[str]:
    # imported late: it is large, and only this command needs it
    from common.objects.codec import decode_config

    try:
        decode_config(orjson.loads(paths.config_data.read_bytes()))
    except (orjson.JSONDecodeError, GantryError) as error:
        yield f"'{paths.config_data}': {error}"


def _locks(paths: Paths) -> Iterator[str]:
    # the file is created when the first lock is taken
    if paths.locks_data.exists():
        yield from _json(paths.locks_data)


def _json(path: Path) -> Iterator[str]:
    try:
        orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        yield f"'{path}': not JSON: {error}"


def _queue(paths: Paths) -> Iterator[str]:
    # a damaged file may have any bytes
    version = paths.version_file.read_text(errors="replace").strip()
    if version != str(QUEUE_VERSION):
        yield f"'{paths.version_file}': the queue has version {version!r:.20}, expected {QUEUE_VERSION}"
    serial = paths.serial_file.read_text(errors="replace").strip()
    if not (serial.isascii() and serial.isdigit()):
        yield f"'{paths.serial_file}': expected the last job id, got {serial!r:.20}"
    damaged = sorted(entry.name for entry in paths.damaged.iterdir()) if paths.damaged.is_dir() else []
    if damaged:
        yield f"'{paths.damaged}' holds job files that could not be read: {', '.join(damaged[:5])}"


def _sockets(paths: Paths, *, place: NodeKind = NodeKind.MASTER, has_web: bool = False) -> Iterator[str]:
    # in the order of stopping: each daemon before those that it needs
    for daemon in reversed(start_order(place, features=[Feature.HTTP] if has_web else [])):
        if daemon.socket is None:
            continue
        try:
            dial(paths.socket(daemon.name), daemon.name).close()
        except GantryError as error:
            yield error.message


def _livelocks(paths: Paths) -> Iterator[str]:
    for folder in (paths.livelocks, paths.sockets):
        mode = folder.stat().st_mode
        if not stat.S_ISDIR(mode):
            yield f"'{folder}' is not a folder"
        elif mode & stat.S_IWOTH:
            yield f"'{folder}' can be written by everybody; take that away with: chmod o-w {folder}"
        elif not os.access(folder, os.R_OK | os.X_OK):
            yield f"'{folder}' cannot be read by this user"


def _disk(paths: Paths) -> Iterator[str]:
    for folder in (paths.data, paths.queue):
        # a folder on a file system of its own is checked separately
        if folder == paths.data or folder.stat().st_dev != paths.data.stat().st_dev:
            yield from room_problems(folder, os.statvfs(folder), _needed_bytes(paths))


def _needed_bytes(paths: Paths) -> int:
    """Bytes of the largest change: a changed file is written in full beside the old one."""
    files = (paths.config_data, paths.locks_data)
    return JOB_BYTES + sum(path.stat().st_size for path in files if path.exists())


def room_problems(folder: Path, room: os.statvfs_result, needed: int) -> Iterator[str]:
    """Tell what keeps the daemons from writing to a folder.

    Args: needed: bytes of the largest write.
    """
    free = room.f_bavail * room.f_frsize
    if room.f_flag & os.ST_RDONLY:
        yield f"'{folder}' is on a disk that is read-only; nothing can be submitted, and no job can end"
    elif free < needed:
        yield f"'{folder}' has {free} bytes free, and a write may need {needed}; make room, or jobs wait for it"
    # some file systems do not count files
    if room.f_files and room.f_favail < FILES:
        yield f"'{folder}' has room for {room.f_favail} more files, and {FILES} may be needed; remove some"


_CHECKS: Final[Mapping[str, Callable[[Paths], Iterator[str]]]] = {
    "config.data": _config,
    "locks.data": _locks,
    "queue": _queue,
    "sockets": _sockets,
    "livelocks": _livelocks,
    "disk": _disk,
}


_SOUND = "ok"


@click.command(
    "verify",
    cls=Command,
    examples=(
        "gnt-cluster verify",
        "gnt-cluster verify --output json",
        "gnt-cluster verify --by-jobs",
        "gnt-cluster verify --error-codes --ignore-errors ENODETIME --node-group rack1",
    ),
)
@click.option("--by-jobs", "is_by_jobs", is_flag=True, help="By jobs, as Ganeti does; so do the options below.")
@click.option("--node-group", "group_name", metavar="NAME", shell_complete=complete_group, help="Only this group.")
@click.option("--error-codes", is_flag=True, help="Print faults with their codes, for programs.")
@click.option(
    "--ignore-errors",
    multiple=True,
    metavar="CODE",
    type=click.Choice(sorted(VERIFY_ERRORS), case_sensitive=False),
    help="Report faults of this code as warnings.",
)
@click.option("-v", "--verbose", is_flag=True, help="Accepted as by Ganeti's command.")
@click.option("--debug-simulate-errors", is_flag=True, help="Report one fault of each kind, as a test.")
def verify(is_by_jobs: bool, **parameters: object) -> int:
    """Check the configuration and the files of this node, and list all faults; the exit code is 0 if there are none.

    By jobs, the configuration and the nodes of each group are checked, under their locks.
    """
    if is_by_jobs or any(parameters.values()):
        # imported late: the usual way needs no jobs
        from cli.cluster.verifyjobs import verify_by_jobs

        return verify_by_jobs(parameters)
    return _verify_here()


def _verify_here() -> int:
    settings = installation()
    why_not = why_not_master(settings)
    of_config, is_silent = ([], False) if why_not else _config_problems()
    found = {
        "configuration": of_config,
        **check_files(paths(), place=place_of(settings), has_web=settings.rapid.enabled),
        "processes": _left_processes(),
    }
    if not settings.cluster.has_nodes:
        # elsewhere the candidates have what is lost here, and their copies are compared
        found["lost jobs"] = [] if is_silent else _lost_jobs()
    # the daemons that check it run there only
    notes = {"configuration": [f"{why_not}; run this there, too"]} if why_not else {}
    if health := [] if why_not else find_problems(settings, is_wconfd_silent=is_silent):
        found["health"] = [_finding_words(each) for each in health if each.level is Level.CRITICAL]
        notes["health"] = [_finding_words(each) for each in health if each.level is not Level.CRITICAL]
    if settings.cluster.has_nodes:
        found["copies"] = [*([] if is_silent else _nodes_behind()), *_queue_lags()]
        found["queue copies"], notes["queue copies"] = _compared(check_queue)
        found["certificates"] = _certificate_problems()
        if not is_silent:
            found["configuration copies"], notes["configuration copies"] = _compared(check_config)
    if settings.cluster.has_lease:
        found["mastership"], notes["mastership"] = _mastership()
    if wants_json():
        say_json({**found, "notes": notes} if notes else found)
    else:
        rows = [
            [name, text] for name, problems in found.items() for text in [*problems, *notes.get(name, ())] or [_SOUND]
        ]
        unremarkable = {_SOUND, *(text for texts in notes.values() for text in texts)}
        columns = (Column("CHECK"), Column("RESULT", style=lambda text: _style(text, unremarkable)))
        say_table(columns, rows)
    count = sum(map(len, found.values()))
    if count:
        complain(f"{count} problem{'s' if count > 1 else ''} found; fix them and run this again")
    return FAILED if count else DONE


def _finding_words(finding: Finding) -> str:
    return f"{finding.what}: {finding.text}; {finding.remedy}"


def _style(text: str, unremarkable: Container[str]) -> str:
    return text if text in unremarkable else click.style(text, fg="red")


def _certificate_problems() -> list[str]:
    """Certificates that are not good, or not for long; empty if this user may not read them, or luxid is not asked."""
    # imported late: clusters of one machine have none
    from cli.cluster.verifycluster import certificate_problems

    return asked(lambda: certificate_problems(installation())) or []


def _mastership() -> tuple[list[str], list[str]]:
    """Problems and notes of etcd, of the lease, and of what is to end an old master."""
    # imported late: other clusters have none
    from cli.cluster.verifycluster import guard_notes, guard_problems, lease_notes, lease_problems
    from cli.clusterstate.masterships import known_mastership

    settings = installation()
    problems, notes = list(guard_problems(settings.keeperd)), list(guard_notes(settings.keeperd))
    view = known_mastership()
    if view is None:
        return [*problems, "keeperd of this node does not reply; 'gantry cluster' tells why"], notes
    allows_broken = settings.etcd.allow_broken_releases
    return [*problems, *lease_problems(view, allows_broken=allows_broken)], [*notes, *lease_notes(view)]


def _left_processes() -> list[str]:
    """Processes left by ended jobs; empty if luxid cannot be asked, which another check reports."""

    def ask() -> list[str]:
        with open_luxid() as client:
            return left_processes(ask_lock_view(client))

    return asked(ask) or []


def _lost_jobs() -> list[str]:
    """What luxid knows of jobs whose files are gone; empty if it cannot be asked, as above."""
    told = asked(lambda: ask_luxid(Repair()))
    if told is None or not told.lost:
        return []
    count = len(told.lost) + told.left
    what = "a file of a job is" if count == 1 else f"{count} files of jobs are"
    return [f"{what} lost, such as '{told.lost[0].file}'; see: {command_line('gantry', 'repair')}"]


def _nodes_behind() -> list[str]:
    """Nodes to which the configuration could not be sent; empty if wconfd cannot be asked, as above."""
    return [
        f"node '{node.name}' lacks {' and '.join(node.lacks)} for {node.behind_s:.0f} s: {node.reason}"
        for node in asked(lambda: ask_wconfd(ListNodesBehind(), timeout_s=ANSWER_S)) or ()
        # others are being sent it right now
        if node.reason
    ]


def _queue_lags() -> list[str]:
    """Candidates to which the queue could not be sent; empty if luxid cannot be asked, as above."""
    return [lag_words(lag) for lag in asked(ask_lags) or () if lag.failure]


def _compared(check: Callable[[], CopyFindings | None]) -> tuple[list[str], list[str]]:
    """Problems and notes; empty if the daemon cannot be asked, as above."""
    findings = asked(check)
    return ([], []) if findings is None else (findings.problems, findings.notes)


def _config_problems() -> tuple[list[str], bool]:
    """The problems that wconfd finds, or the reason why it cannot be asked; and whether it has not replied in time."""
    try:
        ask_wconfd(VerifyConfig(), timeout_s=ANSWER_S)
    except RemoteError as error:
        match error.wire_args():
            case [_, [*problems]] if error.wire_name == ConfigVerifyError.wire_name:
                return list(map(str, problems)), False
            case _:
                return [error.message], False
    except SilentDaemon as error:
        return [error.message], True
    except Unavailable as error:
        return [with_next_step(error).message], False
    except Denied as error:
        return [error.message], False
    return [], False
