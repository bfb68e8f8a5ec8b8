"""The cluster: its facts, its tags and those of its objects, and what this interface can do.

Source: rapi.md 6.1, 6.2, 6.10.
"""

from typing import Final

import attrs
from starlette.responses import RedirectResponse

from common.query.kinds import TagKind
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core.fieldlists import FEATURES
from daemons.rapid.ganeti.core.reads import with_old_names
from daemons.rapid.ganeti.handlers.asking import name_of
from protocol.luxi.cluster import QueryClusterInfo
from protocol.luxi.queries import QueryTags

# of the protocol; the watcher takes another one for a dead daemon
VERSION: Final = 2


class Cluster:
    async def front(self, asked: Asked) -> object:
        """Nothing, as Ganeti has it; but a browser is led to the page."""
        if "text/html" in asked.http.headers.get("accept", ""):
            return RedirectResponse("/ui", 303)
        return None

    async def nothing(self, asked: Asked) -> object:
        return None

    async def version(self, asked: Asked) -> object:
        return VERSION

    async def features(self, asked: Asked) -> object:
        return list(FEATURES)

    async def facts(self, asked: Asked) -> object:
        return with_old_names(await asked.daemons.luxid(QueryClusterInfo()))


@attrs.frozen
class Tags:
    """The tags of objects of one kind."""

    _kind: TagKind

    async def list_tags(self, asked: Asked) -> object:
        """Raises: RemoteError: there is no such object."""
        name = "" if self._kind is TagKind.CLUSTER else name_of(asked)
        return await asked.daemons.luxid(QueryTags(self._kind, name))
