"""The primary addresses of nodes, as this node knows them by its files of ssconf."""

from common.errors import NotFound, PrerequisiteError
from common.objects.naming import short_names
from common.paths import Paths


def address_of(paths: Paths, name: str) -> str:
    """The address of a node; its name may be cut at a dot.

    Raises: PrerequisiteError: no node, or several, have the name. NotFound: this node knows no nodes.
    """
    path = paths.ssconf_file("node_primary_ips")
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        raise NotFound(f"this node knows no nodes ('{path}')") from None
    known = {node: ip for node, _, ip in (line.partition(" ") for line in lines)}
    matches = [name] if name in known else [each for each in known if name in short_names(each)]
    if len(matches) != 1:
        why = f"'{name}' may be any of {', '.join(matches)}" if matches else f"there is no node '{name}'"
        raise PrerequisiteError(why, "unknown_entity")
    return known[matches[0]]
