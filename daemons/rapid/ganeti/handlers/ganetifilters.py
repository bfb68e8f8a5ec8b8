"""Filter rules.

Source: rapi.md 6.4; filters design, "REST API".
"""

from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core import fieldlists
from daemons.rapid.ganeti.core.reads import as_links, as_objects, only
from daemons.rapid.ganeti.core.rulebodies import rule_of
from daemons.rapid.ganeti.handlers.asking import arguments_of, name_of
from protocol.luxi.filters import DeleteFilter
from protocol.luxi.queries import QueryFilters


class Filters:
    async def list_rules(self, asked: Asked) -> object:
        is_bulk = arguments_of(asked).flag("bulk")
        fields = fieldlists.RULE if is_bulk else ("uuid",)
        rows = await asked.daemons.luxid(QueryFilters(None, fields))
        return as_objects(fields, rows) if is_bulk else as_links("filters", "uuid", rows)

    async def read_rule(self, asked: Asked) -> object:
        """Raises: NotFound: there is none."""
        uuid = name_of(asked)
        rows = await asked.daemons.luxid(QueryFilters((uuid,), fieldlists.RULE))
        return as_objects(fieldlists.RULE, [only(rows, "filters", uuid)])[0]

    async def add_rule(self, asked: Asked) -> object:
        """Set a new rule; returns its UUID."""
        return await asked.daemons.luxid(rule_of(None, asked.body))

    async def replace_rule(self, asked: Asked) -> object:
        """Set the rule of this UUID, with a new watermark, whether there is one or not."""
        return await asked.daemons.luxid(rule_of(name_of(asked), asked.body))

    async def delete_rule(self, asked: Asked) -> object:
        """Raises: RemoteError: there is none."""
        await asked.daemons.luxid(DeleteFilter(name_of(asked)))
        return None
