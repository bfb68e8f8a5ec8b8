"""`gnt-cluster verify`: check the configuration and the files of this node."""

from collections.abc import Callable, Container

import click

from cli.choosing.namecompletion import complete_group
from cli.cluster.verifying.nodefiles import check_files
from cli.clusterstate.copies import CopyFindings, check_config, check_queue
from cli.clusterstate.findingproblems import find_problems
from cli.clusterstate.queuelags import ask_lags, lag_words
from cli.commands import Command
from cli.connection import ask_wconfd, open_luxid, with_next_step
from cli.context import installation, paths, uses_color, wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, say_json, say_styled
from cli.tables import Column, Layout, render
from cli.why.leftprocesses import left_processes
from cli.why.lockview import ask_lock_view
from common.errors import ConfigVerifyError, Denied, GantryError, RemoteError, Unavailable
from common.health.findings import Finding, Level
from common.nodes.nodeplace import place_of, why_not_master
from common.opcodes.types import VERIFY_ERRORS
from protocol.wconfd.config import ListNodesBehind, VerifyConfig

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
@click.option("--error-codes", is_flag=True, help="Tell faults with their codes, for programs.")
@click.option(
    "--ignore-errors",
    multiple=True,
    metavar="CODE",
    type=click.Choice(sorted(VERIFY_ERRORS), case_sensitive=False),
    help="Tell faults of this code as warnings.",
)
@click.option("-v", "--verbose", is_flag=True, help="Accepted as by Ganeti's command.")
@click.option("--debug-simulate-errors", is_flag=True, help="Tell a fault of each kind, to see what becomes of it.")
def verify(is_by_jobs: bool, **parameters: object) -> int:
    """Check the configuration and the files of this node, and list all faults; the exit code is 0 if there are none.

    By jobs, the configuration and the nodes of each group are checked, under their locks.
    """
    if is_by_jobs or any(parameters.values()):
        # imported late: the usual way needs no jobs
        from cli.cluster.verifying.verifyjobs import verify_by_jobs

        return verify_by_jobs(parameters)
    return _verify_here()


def _verify_here() -> int:
    settings = installation()
    why_not = why_not_master(settings)
    found = {
        "configuration": [] if why_not else _config_problems(),
        **check_files(paths(), place=place_of(settings), has_web=settings.rapid.enabled),
        "processes": _left_processes(),
    }
    # the daemons that check it run there only
    notes = {"configuration": [f"{why_not}; run this there, too"]} if why_not else {}
    if health := [] if why_not else find_problems(settings):
        found["health"] = [_finding_words(each) for each in health if each.level is Level.CRITICAL]
        notes["health"] = [_finding_words(each) for each in health if each.level is not Level.CRITICAL]
    if settings.cluster.has_nodes:
        found["copies"] = [*_nodes_behind(), *_queue_lags()]
        found["queue copies"], notes["queue copies"] = _compared(check_queue)
        found["certificates"] = _certificate_problems()
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
        for line in render(columns, rows, Layout(has_color=uses_color())):
            say_styled(line)
    count = sum(map(len, found.values()))
    if count:
        complain(f"{count} problem{'s' if count > 1 else ''} found; mend them, and run this again")
    return FAILED if count else DONE


def _finding_words(finding: Finding) -> str:
    return f"{finding.what}: {finding.text}; {finding.remedy}"


def _style(text: str, unremarkable: Container[str]) -> str:
    return text if text in unremarkable else click.style(text, fg="red")


def _certificate_problems() -> list[str]:
    """Certificates that are not good, or not for long; empty if this user may not read them, or luxid is not asked."""
    # imported late: clusters of one machine have none
    from cli.clusterstate.certificaterows import certificate_problems

    try:
        return certificate_problems(installation())
    except (GantryError, OSError):
        return []


def _mastership() -> tuple[list[str], list[str]]:
    """Problems and notes of etcd, of the lease, and of what is to end an old master."""
    # imported late: other clusters have none
    from cli.clusterstate.leasechecks import guard_notes, guard_problems, lease_notes, lease_problems
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
    try:
        with open_luxid() as client:
            return left_processes(ask_lock_view(client))
    except (GantryError, OSError):
        return []


def _nodes_behind() -> list[str]:
    """Nodes to which the configuration could not be sent; empty if wconfd cannot be asked, as above."""
    try:
        behind = ask_wconfd(ListNodesBehind())
    except (GantryError, OSError):
        return []
    return [
        f"node '{node.name}' lacks {' and '.join(node.lacks)} for {node.behind_s:.0f} s: {node.reason}"
        for node in behind
        # others are being sent it right now
        if node.reason
    ]


def _queue_lags() -> list[str]:
    """Candidates to which the queue could not be sent; empty if luxid cannot be asked, as above."""
    try:
        return [lag_words(lag) for lag in ask_lags() or () if lag.failure]
    except (GantryError, OSError):
        return []


def _compared(check: Callable[[], CopyFindings | None]) -> tuple[list[str], list[str]]:
    """Problems and notes; empty if the daemon cannot be asked, as above."""
    try:
        findings = check()
    except (GantryError, OSError):
        return [], []
    return ([], []) if findings is None else (findings.problems, findings.notes)


def _config_problems() -> list[str]:
    """The problems that wconfd finds, or the reason why it cannot be asked."""
    try:
        ask_wconfd(VerifyConfig())
    except RemoteError as error:
        match error.wire_args():
            case [_, [*problems]] if error.wire_name == ConfigVerifyError.wire_name:
                return list(map(str, problems))
            case _:
                return [error.message]
    except Unavailable as error:
        return [with_next_step(error).message]
    except Denied as error:
        return [error.message]
    return []
