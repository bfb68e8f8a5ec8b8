"""`gantry resource`: counted resources of the cluster and of nodes; each verb is a module of the folder `resources`."""

from typing import Final

from cli.commands import Group, Verb
from cli.remote.remoteoptions import remote_options

VERBS: Final = {
    "set": Verb("cli.gantry.resources.set:set_resource", "Set how many units there are."),
    "list": Verb("cli.gantry.resources.list:list_resources", "List the resources, and what is in use."),
    "info": Verb("cli.gantry.resources.info:info", "Show which jobs use a resource."),
    "remove": Verb("cli.gantry.resources.remove:remove", "Remove resources."),
}

resource = Group(
    "resource",
    VERBS,
    help="Counted resources, such as licences: a job takes all that it uses when it starts, and gives it back at its "
    "end (gnt-job run --use).",
    examples=(
        "gantry resource set licences 5",
        "gantry resource set --node web1 memory 64G",
        "gnt-job run --use licences=2 --use web1:memory=4G -- make",
        "gantry resource list",
    ),
    shared=remote_options,
)
