"""Nodes, node groups, networks and instances: lists and single ones.

Source: rapi.md 6.6 to 6.9.
"""

import attrs

from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core.nodewrites import ROLE_WORDS
from daemons.rapid.ganeti.core.reads import Kind, only
from daemons.rapid.ganeti.handlers.asking import arguments_of, name_of
from daemons.rapid.ganeti.handlers.longlists import list_reply
from daemons.rapid.refusals import Refused
from protocol.luxi.queries import QueryInstances, QueryNodes


@attrs.frozen
class Objects:
    """The objects of one kind."""

    _kind: Kind

    async def list_objects(self, asked: Asked) -> object:
        arguments = arguments_of(asked)
        rows = await asked.daemons.luxid(self._kind.listing(arguments))
        return await list_reply(len(rows), lambda: self._kind.list_of(arguments, rows))

    async def read_object(self, asked: Asked) -> object:
        """Raises: NotFound: there is none."""
        name = name_of(asked)
        return self._kind.item_of(name, await asked.daemons.luxid(self._kind.looking_up(name, arguments_of(asked))))


async def read_role(asked: Asked) -> object:
    """The role of a node in a word. Raises: NotFound: there is no such node."""
    name = name_of(asked)
    [letter] = only(await asked.daemons.luxid(QueryNodes((name,), ("role",))), "nodes", name)
    return ROLE_WORDS[str(letter)]


async def read_console(asked: Asked) -> object:
    """How to reach an instance's console.

    Raises: NotFound: there is no such instance. Refused: it does not run.
    """
    name = name_of(asked)
    rows = await asked.daemons.luxid(QueryInstances((name,), ("console", "oper_state")))
    console, is_running = only(rows, "instances", name)
    if not is_running:
        raise Refused(503, f"instance '{name}' is not running")
    return console
