"""`gnt-cluster init`: make a cluster."""

import subprocess
from contextlib import nullcontext

import click

from cli.commands import Command
from cli.context import effective_root, up_command, wants_json
from cli.exitcodes import DONE
from cli.gantry.cluster.etcdnamed import check_etcd_named
from cli.screen import confirm, remark, say, say_json, warn
from common.installation import check_safe, has_systemd
from common.nodes.ownaddress import own_address
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.accounts.asowner import as_owner_of

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
    from cli.gantry.cluster.run_as_submitter import check_possible, is_possible, switch_on

    settings = load_settings(effective_root())
    if as_submitter:
        check_possible(settings)
    # where systemd starts the daemons, it does so as the owner of their files
    with as_owner_of(settings.paths.data) if has_systemd(settings.root) else nullcontext():
        node = settings.cluster.own_name if node is None else node
        _make(settings, name, node)
    if wants_json():
        say_json({"name": name, "node": node, "data": str(settings.paths.data)})
    else:
        say(f"cluster '{name}' made in {settings.paths.data}")
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
        from cli.gantry.cluster.etcdstate import check_etcd_free

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
