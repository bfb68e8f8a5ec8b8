"""Which jobs of a submission are taken, by who submits them and what they name; before an id is spent.

Source: luxid.md 2.2; DESIGN sections 11 and 13.
"""

import time
from collections.abc import Awaitable, Callable, Generator, Sequence

import attrs

from common.errors import Denied, GantryError, InvalidRequest
from common.objects.index import ConfigIndex
from daemons.luxid.core.submission.knownnodes import names_nodes, unknown_node
from daemons.luxid.core.submission.newjobs import ParsedJob, Wanted
from daemons.luxid.core.submission.newterms import with_checked_terms
from daemons.luxid.core.submission.rights import Submitter, authorize
from daemons.luxid.submitters import Submitters
from daemons.luxid.turns import in_turns


@attrs.frozen
class Acceptance:
    """Judges the jobs of submissions.

    Args: configuration: returns the present one; called if a job names nodes.
    """

    submitters: Submitters
    configuration: Callable[[], Awaitable[ConfigIndex]]

    async def of(self, jobs: Sequence[Wanted], submitter: Submitter) -> Sequence[Wanted]:
        """For each job the job as it is taken, or the reason for its refusal.

        Raises: ConfigurationMissing: a job names a node, and the configuration cannot be read.
        """
        wanted = await in_turns(self._authorized(jobs, submitter))
        if not any(names_nodes(ops) for ops in wanted if not isinstance(ops, GantryError)):
            return wanted
        nodes = (await self.configuration()).nodes
        return [ops if isinstance(ops, GantryError) else unknown_node(ops, nodes) or ops for ops in wanted]

    def _authorized(self, jobs: Sequence[Wanted], submitter: Submitter) -> Generator[int, None, list[Wanted]]:
        """For each job the job, or the reason for its refusal, e.g. the submitter may not submit one of its opcodes."""
        authorized = []
        for ops in jobs:
            authorized.append(ops if isinstance(ops, GantryError) else self._authorized_one(ops, submitter))
            yield 1 if isinstance(ops, GantryError) else len(ops)
        return authorized

    def _authorized_one(self, ops: ParsedJob, submitter: Submitter) -> Wanted:
        host = self.submitters.host
        try:
            return with_checked_terms(authorize([ops], submitter, host)[0], submitter.name(host), time.time_ns())
        except (Denied, InvalidRequest) as error:
            return error
