"""Queries of all kinds of things, with any fields and a condition.

Source: rapi.md 6.5.
"""

import attrs
from starlette.responses import Response

from common.query.kinds import QueryKind
from common.wire import unstructure
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core.reads import query_of
from daemons.rapid.ganeti.handlers.asking import arguments_of
from daemons.rapid.ganeti.handlers.longlists import list_reply
from protocol.luxi.queries import Query, QueryFields


@attrs.frozen
class Queries:
    """Queries of one kind of things."""

    _what: QueryKind

    async def query(self, asked: Asked) -> object:
        """The fields of all things, as the query string names them."""
        return await _answer(asked, query_of(self._what, arguments_of(asked), has_body=False))

    async def query_some(self, asked: Asked) -> object:
        """The fields of the things for which the condition in the body is true."""
        return await _answer(asked, query_of(self._what, arguments_of(asked), asked.body, has_body=True))

    async def list_fields(self, asked: Asked) -> object:
        return await asked.daemons.luxid(QueryFields(self._what, arguments_of(asked).words("fields")))


async def _answer(asked: Asked, query: Query) -> Response:
    found = await asked.daemons.luxid(query)
    return await list_reply(len(found.data), lambda: {"fields": unstructure(found.fields), "data": found.data})
