"""`gnt-cluster init`: make a cluster."""

from contextlib import nullcontext

import click

from cli.commands import Command
from cli.context import effective_root, up_command, wants_json
from cli.exitcodes import DONE
from cli.gantry.cluster.etcdnamed import check_etcd_named
from cli.screen import remark, say, say_json
from common.installation import check_safe, has_systemd
from common.nodes.ownaddress import own_address
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.accounts.asowner import as_owner_of


@click.command(
    "init", cls=Command, examples=("gnt-cluster --root ~/try init lab", "gnt-cluster init --node web1 production")
)
@click.option("--node", metavar="NAME", help="The name of this node; the host's if left out.")
@click.argument("name")
def init(name: str, node: str | None) -> int:
    """Make the files of a cluster called NAME, with one node: this one.

    With a lease in etcd this node becomes the master at its first campaign, some seconds after its start.
    """
    settings = load_settings(effective_root())
    # where systemd starts the daemons, it does so as the owner of their files
    with as_owner_of(settings.paths.data) if has_systemd(settings.root) else nullcontext():
        node = settings.cluster.own_name if node is None else node
        _make(settings, name, node)
    if wants_json():
        say_json({"name": name, "node": node, "data": str(settings.paths.data)})
    else:
        say(f"cluster '{name}' made in {settings.paths.data}")
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


def _then(settings: Settings) -> str:
    return "; then see its first campaign with: gantry cluster" if settings.cluster.has_lease else ""
