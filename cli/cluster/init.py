"""`gnt-cluster init`: make a cluster."""

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from cli.clusterstate.etcd import check_etcd_named
from cli.commands import Command
from cli.context import effective_root, up_command, wants_json
from cli.exitcodes import DONE
from cli.screen import confirm, remark, say, say_json, say_result, warn
from common.errors import Conflict, Denied, ExecutionError
from common.installation import RULES_FILE, check_safe, first_rules, has_systemd
from common.nodes.nodeplace import own_address
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.accounts import as_owner_of

_QUESTION = (
    "Jobs are to run commands as the users who submit them, and root's as root? A launcher that runs as root starts "
    "them then, by rules in /etc/gantry/launcher.toml; otherwise all commands run as the daemons' user."
)


@click.command(
    "init",
    cls=Command,
    examples=(
        "gnt-cluster --root ~/try init lab",
        "gnt-cluster init --node web1 production",
        "gnt-cluster init --run-as-submitter production",
    ),
)
@click.option("--node", metavar="NAME", help="The name of this node; the host's if left out.")
@click.option(
    "--run-as-submitter/--confined",
    "as_submitter",
    default=None,
    help="Whether commands run as their submitters, root's as root; a terminal is asked, else it is --confined.",
)
@click.option("--start/--no-start", default=True, help="Whether root starts the daemons where systemd does.")
@click.argument("name")
def init(name: str, node: str | None, as_submitter: bool | None, start: bool) -> int:
    """Make the files of a cluster called NAME, with one node: this one; root starts its daemons by systemd.

    With a lease in etcd this node becomes the master at its first campaign, some seconds after its start.
    """
    # imported late: it needs systemd

    settings = load_settings(effective_root())
    if as_submitter:
        check_possible(settings)
    # where systemd starts the daemons, it does so as the owner of their files
    with as_owner_of(settings.paths.data) if has_systemd(settings.root) else nullcontext():
        node = settings.cluster.own_name if node is None else node
        _make(settings, name, node)
    say_result(
        {"name": name, "node": node, "data": str(settings.paths.data)},
        f"cluster '{name}' made in {settings.paths.data}",
    )
    if as_submitter or (as_submitter is None and is_possible(settings) and confirm(_QUESTION)):
        switch_on(settings)
    if start and is_possible(settings) and _start():
        remark(f"its daemons run, also after the next boot{_then(settings)}")
    else:
        remark(f"start it with: {up_command()}{_then(settings)}")
    return DONE


def _make(settings: Settings, name: str, node: str) -> None:
    from common.clusterinit import create_cluster

    paths = settings.paths
    check_safe(settings)
    check_etcd_named(settings)
    if settings.cluster.has_lease and not paths.config_data.exists():
        # imported late: most clusters are one machine
        from cli.clusterstate.etcd import check_etcd_free

        check_etcd_free(settings)
    create_cluster(
        paths,
        name,
        node,
        primary_ip=own_address(settings),
        max_running_jobs=settings.luxid.max_running_jobs,
        has_nodes=settings.cluster.has_nodes,
        has_web=settings.rapid.enabled,
    )


def _start() -> bool:
    """Let systemd start the daemons, now and at each boot; false: it did not."""
    done = subprocess.run(
        ["systemctl", "enable", "--now", "gantry.target"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        warn(f"systemd has not started the daemons: {done.stderr.strip() or done.returncode}")
    return not done.returncode


def _then(settings: Settings) -> str:
    return "; then see its first campaign with: gantry cluster" if settings.cluster.has_lease else ""


# `gantry cluster run-as-submitter`: let the launcher start commands as the users whose jobs they are.
#
# `gnt-cluster init` asks for the same. The rules are root's: they are made once from the roles in the settings, and are
# never changed here afterwards.
#
# Source: DESIGN sections 7 and 16.


_OFF: Final = RULES_FILE.with_name(f"{RULES_FILE.name}.off")
_SOCKET: Final = "gantry-launcher.socket"
_SERVICE: Final = "gantry-launcher.service"


@click.command(
    "run-as-submitter",
    cls=Command,
    examples=("gantry cluster run-as-submitter", "gantry cluster run-as-submitter --off"),
)
@click.option("--off", is_flag=True, help="Let all commands run as the daemons' user again.")
def run_as_submitter(off: bool) -> int:
    """Let commands of jobs run as the users who submit them, and root's as root, by a launcher that runs as root.

    Who may run as whom says /etc/gantry/launcher.toml, which is made from the roles in [access]; add users to both.
    Without the launcher all commands run as the daemons' user. --off is refused while commands of the launcher run, as
    without it nothing could end them.
    It is for this machine alone: say it on every node whose commands are to run so.
    """
    settings = load_settings(effective_root())
    check_possible(settings)
    switch_off(settings) if off else switch_on(settings)
    if wants_json():
        say_json({"run_as_submitter": not off, "rules": None if off else str(RULES_FILE)})
    elif off:
        say(f"commands run as the daemons' user; the rules are kept in {_OFF}")
    else:
        say(f"commands run as their submitters, by the rules in {RULES_FILE}")
    return DONE


def is_possible(settings: Settings) -> bool:
    """Whether this is root, for the installation of the system, on a machine with systemd."""
    return os.geteuid() == 0 and has_systemd(settings.root)


def check_possible(settings: Settings) -> None:
    """Raises: Denied: this is not root. Conflict: the installation has no launcher."""
    if not has_systemd(settings.root):
        raise Conflict(
            "a launcher is a service of the system: install the package, and run this for the system's "
            "installation, without --root; elsewhere commands run as the user who runs 'gantry up'"
        )
    if os.geteuid() != 0:
        raise Denied("only root may let commands run as other users; run this as root")


def switch_on(settings: Settings) -> None:
    """Write the rules, unless there are some, and start the launcher. Raises: Conflict, ExecutionError, OSError."""
    if not RULES_FILE.exists():
        if _OFF.exists():
            _OFF.rename(RULES_FILE)
        else:
            _write_new(RULES_FILE, first_rules(settings.access, _daemons_user(settings)))
            remark(f"who may run commands as whom is in {RULES_FILE}; look at it")
            if settings.access.uids or settings.access.gids:
                warn(
                    "jobs of 'uids' and 'gids' in [access] count as root's, so these users can now run commands as "
                    f"root; take them out, or 'root' out of [run_as] in {RULES_FILE}"
                )
    _systemctl("reset-failed", _SERVICE, _SOCKET, is_tolerant=True)
    # a socket is not started while its service runs
    _systemctl("stop", _SERVICE, is_tolerant=True)
    _systemctl("restart", _SOCKET)
    _systemctl("start", _SERVICE)
    # it loads what a call of the launcher needs
    _systemctl("try-reload-or-restart", "gantry-forkserver.service", is_tolerant=True)


def switch_off(settings: Settings) -> None:
    """Stop the launcher, and keep the rules aside.

    Raises: Conflict: commands that it has started run; it goes on. ExecutionError, OSError.
    """
    # first, so that none begins meanwhile
    _systemctl("stop", _SOCKET, _SERVICE)
    if count := _running_commands(settings):
        _systemctl("start", _SOCKET)
        _systemctl("start", _SERVICE)
        raise Conflict(
            f"{count} commands of other users run, and without the launcher nothing could end them; wait for their "
            "jobs, or end them with 'gnt-job cancel --kill', and run this again"
        )
    if RULES_FILE.exists():
        RULES_FILE.rename(_OFF)


def _running_commands(settings: Settings) -> int:
    """The number of supervisors that the launcher has started."""
    folder = settings.paths.launcher_socket.parent / "commands"
    found = folder.iterdir() if folder.exists() else ()
    return sum(path.name.isdigit() and Path("/proc", path.name).exists() for path in found)


def _daemons_user(settings: Settings) -> str:
    """The login of the owner of the data. Raises: Conflict: they are root's, so that no launcher is needed."""
    # imported late: few commands need it
    from common.system.accounts import user_numbered

    status = settings.paths.data.stat()
    if status.st_uid == 0:
        raise Conflict(f"'{settings.paths.data}' is root's: daemons of root run commands as their submitters already")
    user = user_numbered(status.st_uid)
    if user is None:
        raise Conflict(f"'{settings.paths.data}' belongs to user {status.st_uid}, who has no name")
    return user.pw_name


def _write_new(path: Path, text: str) -> None:
    path.parent.mkdir(0o755, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _systemctl(*words: str, is_tolerant: bool = False) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode and not is_tolerant:
        raise ExecutionError(f"'systemctl {' '.join(words)}' failed: {done.stderr.strip() or done.returncode}")
