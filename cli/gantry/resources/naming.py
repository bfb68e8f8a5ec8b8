"""Names of resources as arguments: `licences`, `web1:memory`, or `memory` with `--node web1`.

Source: DESIGN section 16.
"""

from typing import TYPE_CHECKING

import click

from cli.choosing.namecompletion import complete_node
from common.queue.terms import Use, read_use

if TYPE_CHECKING:
    # what completes a word imports it
    from click.shell_completion import CompletionItem


class ResourceType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`licences`, `web1:memory`."""

    name = "resource"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cli.gantry.completion import complete_resources

        # no command runs while the shell asks, so its context is not yet the current one
        with ctx.scope(cleanup=False):
            return complete_resources(incomplete)


RESOURCE = ResourceType()
node_option = click.option(
    "--node", metavar="NODE", shell_complete=complete_node, help="The resource is this node's; as NODE:NAME."
)


def resource_key(name: str, node: str | None) -> Use:
    """The resource that is meant, as a use of one unit.

    Raises: InvalidRequest: the name names no resource. UsageError: two nodes are named.
    """
    found = read_use(name, 1)
    if node is None:
        return found
    if found.node not in ("", node):
        raise click.UsageError(f"'{name}' is a resource of node '{found.node}', and --node names '{node}'")
    return read_use(f"{node}:{found.resource}", 1)
