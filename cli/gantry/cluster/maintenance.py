"""`gantry cluster maintenance`: let the mastership stay where it is, whatever happens; or no longer."""

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.cluster.asking import ask
from cli.screen import say, say_json
from protocol.keeperd.calls import SetMaintenance, ShowCluster

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
    if wants_json():
        say_json({"maintenance": is_on})
    else:
        say(_WORDS[is_on])
    return DONE
