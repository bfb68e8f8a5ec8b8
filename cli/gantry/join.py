"""`gantry join`: make this machine a node of a cluster."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import click

from cli.clusterstate.processes import end_process, listens
from cli.commands import Command
from cli.context import command_line, effective_root, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.up import start_supervisor, tell
from cli.options import DURATION, host_and_port
from cli.screen import complain, remark, say_json
from common.daemons import Feature, start_order
from common.errors import Conflict, NotFound, RemoteError, Unavailable
from common.installation import has_systemd, take_up
from common.nodes.joining import (
    JoiningFiles,
    JoiningPlan,
    JoinTokenText,
    NodeSettings,
    missing_etcd_files,
    settle_settings,
)
from common.objects.config import CONFIG_VERSION
from common.queue.jobs import FINAL_NAMES
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.accounts import as_owner_of, as_root_again
from common.system.running import find_daemon, find_supervisor
from protocol.noded.clients.joining import MasterDoor
from protocol.noded.joining import JOIN_PORT, Admitted, AskNews, Join, JoinProgress, Ready, TakingIn
from protocol.unixsocket import pauses

# time to wait for the master's port, which a new token opens
_OPENING_S: Final = 10.0
# time for the node daemon to listen, where something else starts it
_START_S: Final = 30.0
_SUCCESS: Final = "success"


@click.command(
    "join",
    cls=Command,
    examples=("gantry join master1 --token TOKEN", "gantry join 10.0.0.1:1812 --token TOKEN --address 10.0.0.7"),
)
@click.option("--token", "text", required=True, help="What 'gnt-cluster join-token' has printed on the master.")
@click.option("--node", metavar="NAME", help="The name of this node; the settings' or the host's if left out.")
@click.option("--address", metavar="IP", help="The address of this node; the one that reaches the master if left out.")
@click.option("--timeout", type=DURATION, default=600.0, help="How long the cluster may take (10m).")
@click.option("--force", "is_forced", is_flag=True, help="Put the files of an earlier cluster aside first.")
@click.argument("master", metavar="MASTER[:PORT]")
def join(master: str, text: str, node: str | None, address: str | None, timeout: float, is_forced: bool) -> int:
    """Make this machine a node of the cluster whose MASTER has made the token.

    Killed or failed in the middle, the same command goes on where it was.
    """
    token = JoinTokenText.parse(text)
    host, port = host_and_port(master, JOIN_PORT, "MASTER[:PORT]")
    settings = load_settings(effective_root())
    with as_owner_of(settings.paths.data) if has_systemd(settings.root) else nullcontext():
        take_up(settings)
        files = JoiningFiles(settings.paths)
        _make_room(settings, files, token, is_forced=is_forced)
        name = node or settings.cluster.own_name
        door = MasterDoor(host, port, token.fingerprint, address or settings.noded.address)
        door.reach(_OPENING_S)
        plan = JoiningPlan(token.id, name)
        admitted = door.ask(_request(files, plan, token, door.own_address), Admitted)
        with as_root_again():
            written = settle_settings(settings, NodeSettings(name, door.own_address, admitted.port, admitted.shared))
        files.install(admitted.certificate, admitted.cluster_certificate, admitted.ssconf)
        tell(f"admitted    as '{name}' at {door.own_address} to the cluster '{admitted.cluster_name}'")
        if written is not None:
            tell(f"settings    written to {written}")
        settings = load_settings(effective_root())
        _check_etcd_files(settings)
        _start_daemons(settings)
        return _be_taken_in(door, files, plan, admitted.cluster_name, time.monotonic() + timeout)


def _make_room(settings: Settings, files: JoiningFiles, token: JoinTokenText, *, is_forced: bool) -> None:
    """Refuse a machine that belongs to a cluster, unless its files may be put aside."""
    plan = files.plan()
    if plan is not None and (plan.token_id == token.id or not is_forced):
        # an earlier command has begun, and this one goes on
        return
    if not is_forced:
        files.refuse_member()
        return
    for daemon in start_order(features=list(Feature)):
        if find_daemon(settings.paths, daemon.name) is not None:
            raise Conflict(f"{daemon.name} still runs for the cluster before; end it: {command_line('gantry', 'down')}")
    aside = files.put_aside()
    if aside is not None:
        tell(f"put aside   the files of the cluster before: {aside}")
        take_up(settings)


def _check_etcd_files(settings: Settings) -> None:
    """Raises: NotFound: this machine could never become the master, because it cannot speak to etcd."""
    if settings.cluster.has_lease and (missing := missing_etcd_files(settings)):
        names = ", ".join(f"'{file}'" for file in missing)
        raise NotFound(
            f"this machine lacks files for etcd that the settings name: {names}; copy them from a master candidate, "
            "then repeat the same command, which goes on from here"
        )


def _request(files: JoiningFiles, plan: JoiningPlan, token: JoinTokenText, address: str) -> Join:
    request = files.begin(plan).request.decode()
    return Join(token.id, token.secret, request, plan.node_name, address, CONFIG_VERSION, time.time())


def _start_daemons(settings: Settings) -> None:
    """Start what belongs on this node, and wait until its node daemon listens; what runs already goes on.

    Raises: Unavailable: it does not, or systemd is to start it.
    """
    paths, rules = settings.paths, settings.noded
    _end_older(settings)
    if find_supervisor(paths) is None and find_daemon(paths, "noded") is None:
        if has_systemd(settings.root):
            _start_by_systemd()
        else:
            with open(os.devnull, "wb") as nowhere:
                # a pipe would end the supervisor with this process; it runs on: do not wait for it
                start_supervisor(paths, nowhere.fileno()).returncode = 0
    if not listens(rules.address or "localhost", rules.port, _START_S):
        raise Unavailable(
            f"the node daemon of this machine does not listen at port {rules.port}; its log "
            f"'{paths.log_file('noded')}' tells why; fix that, and repeat the same command"
        )
    tell(f"noded       listens at port {rules.port}")


def _start_by_systemd() -> None:
    """Raises: Unavailable: this user may not, or systemd does not start them."""
    with as_root_again() as is_root:
        # the node daemon apart: a target that is active already starts nothing
        done = is_root and all(
            subprocess.run(["systemctl", *words], stdin=subprocess.DEVNULL, check=False).returncode == 0
            for words in (("enable", "--quiet", "gantry.target"), ("start", "gantry.target", "gantry-noded.service"))
        )
    if not done:
        raise Unavailable(
            "the node daemon does not run, and systemd is to start it: systemctl enable gantry.target; systemctl start "
            "gantry.target gantry-noded; then repeat the same command, which goes on from here"
        )


def _end_older(settings: Settings) -> None:
    """End daemons older than this node's certificate: they belong to a cluster before, and may be leaving it."""
    paths = settings.paths
    made_at = paths.client_pem.stat().st_mtime
    # the supervisor first, which ends the others
    for find in (find_supervisor, partial(find_daemon, name="noded")):
        running = find(paths)
        if running is not None and running.since < made_at and not end_process(running.pid, _START_S):
            raise Unavailable(f"a daemon of a cluster before runs with pid {running.pid} and does not end; kill it")


def _be_taken_in(door: MasterDoor, files: JoiningFiles, plan: JoiningPlan, cluster: str, deadline: float) -> int:
    own = files.certificate
    job_id = door.ask(Ready(plan.token_id), TakingIn, certificate=own, patience_s=_OPENING_S).job_id
    tell(f"taken in    by job {job_id} of the master")
    news = JoinProgress("", 0)
    for news in _all_news(door, plan, own, deadline):
        for line in news.lines:
            tell(f"job {job_id}  {line}")
    if news.status not in FINAL_NAMES:
        complain(f"job {job_id} has not ended in time, it is {news.status}; repeat the same command to wait on")
        return FAILED
    if news.status != _SUCCESS:
        reason = news.error or f"it ended as {news.status}"
        complain(f"the cluster has not taken the node in, job {job_id} failed: {reason}; then repeat the same command")
        return FAILED
    files.finish()
    if wants_json():
        say_json({"cluster": cluster, "job": job_id, **attrs.asdict(plan)})
    else:
        tell(f"joined      '{plan.node_name}' is a node of the cluster '{cluster}'")
    return DONE


def _all_news(door: MasterDoor, plan: JoiningPlan, own: Path, deadline: float) -> Iterator[JoinProgress]:
    """The news of the job until it has ended, or the time is over."""
    news, retries = JoinProgress("", 0), pauses()
    while news.status not in FINAL_NAMES and (left_s := deadline - time.monotonic()) > 0:
        asked = AskNews(plan.token_id, news.status, news.serial)
        try:
            news = door.ask(asked, JoinProgress, certificate=own, patience_s=left_s)
        except (Unavailable, RemoteError) as error:
            # a daemon of the master is away
            if error.code != Unavailable.code:
                raise
            remark(f"warning: {error.message}; asking again")
            time.sleep(min(next(retries), left_s))
            continue
        yield news
