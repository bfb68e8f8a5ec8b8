"""Subscribe to luxid's feed; ours."""

from collections.abc import Sequence

import attrs

from common.errors import InvalidRequest
from common.ids import JobId
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.feed.beginning import begin
from daemons.luxid.feed.changedjobs import Wish
from daemons.luxid.feed.feed import Feed
from daemons.luxid.feed.followedoutputs import FollowedOutputs
from daemons.luxid.feed.stream import FeedStream
from daemons.luxid.handlers.jobs.output import Output
from daemons.luxid.outputs import OutputWatch
from protocol.luxi.feed import FeedBegin, Subscribe
from protocol.peer import Peer
from protocol.stream import Stream


@attrs.frozen
class Subscribing:
    """The method that subscribes."""

    _feed: Feed
    _output: Output
    _watch: OutputWatch

    async def subscribe(self, call: Subscribe, peer: Peer) -> Stream[FeedBegin]:
        """Raises: InvalidRequest, PrerequisiteError: the arguments do not fit together, or a field is unknown.
        JobLost, Denied: as `Output.read_job_output`. Unavailable: output cannot be followed; or too much changes.
        """
        serials = None if call.log_after is None else _by_job(call.ids or (), call.log_after)
        wish = Wish.of(Viewer(peer.uid, peer.role, peer.caller), call.fields)
        for job_id in {place.job_id for place in call.outputs or ()}:
            await self._output.check_may_read(job_id, peer)
        ids = None if call.ids is None else tuple(dict.fromkeys(call.ids))
        outputs = FollowedOutputs(self._output.read, self._watch, call.outputs) if call.outputs else None
        stream = FeedStream(self._feed, frozenset(call.topics), wish, ids, serials, outputs)
        try:
            await begin(self._feed, attrs.evolve(call, ids=ids), stream)
        except BaseException:
            stream.close()
            raise
        return stream


def _by_job(job_ids: Sequence[JobId], serials: Sequence[int]) -> dict[JobId, int]:
    if len(job_ids) != len(serials):
        raise InvalidRequest(
            f"'log_after' must have one serial for each of 'ids', got {len(serials)} for {len(job_ids)} jobs"
        )
    return dict(zip(job_ids, serials, strict=True))
