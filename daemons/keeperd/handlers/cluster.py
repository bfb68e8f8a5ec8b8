"""Show the mastership.

Source: DESIGN section 14.
"""

from collections.abc import Callable, Sequence

from common.errors import Unavailable
from daemons.keeperd.clusterview import ClusterViews
from daemons.keeperd.keys.viewing import Viewer
from daemons.keeperd.shell import Shell
from protocol.keeperd.calls import ClusterView, ShowCluster
from protocol.peer import Peer


class Cluster:
    """Args: problems: tells what is wrong here, in words for an operator."""

    def __init__(
        self, shell: Shell, views: ClusterViews, viewer: Viewer, problems: Callable[[], Sequence[str]]
    ) -> None:
        self._shell = shell
        self._views = views
        self._viewer = viewer
        self._problems = problems

    async def show_cluster(self, _: ShowCluster, __: Peer) -> ClusterView:
        """Raises: Unavailable: keeperd is just starting."""
        keeper = self._shell.keeper
        if keeper is None:
            raise Unavailable("keeperd is just starting; ask again")
        return await self._views.view(keeper, self._viewer.heard_at, self._problems())
