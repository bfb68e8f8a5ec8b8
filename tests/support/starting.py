"""The parts of luxid that start jobs and settle deaths, for tests that have no daemon."""

import trio

from common.objects.index import ConfigIndex
from daemons.luxid.config import ConfigurationMissing
from daemons.luxid.parts import JobParts
from daemons.luxid.processes.deaths import JobProcessDeaths
from daemons.luxid.processes.launcher import ProcessLauncher
from daemons.luxid.processes.starting import Attempts, Starter

ATTEMPTS = 3


async def no_configuration() -> ConfigIndex:
    """For submissions whose jobs name no nodes."""
    raise ConfigurationMissing


def starter_of(parts: JobParts, launcher: ProcessLauncher, timeout_s: float = 10.0) -> Starter:
    return Starter(parts.jobs, parts.store, launcher, _attempts(parts), parts.scheduler, timeout_s)


def deaths_of(parts: JobParts, nursery: trio.Nursery) -> JobProcessDeaths:
    """Settles deaths; start its `run` where they are to be found, too."""
    return JobProcessDeaths(parts.jobs, parts.store, parts.rewriting, _attempts(parts), parts.scheduler, nursery)


def _attempts(parts: JobParts) -> Attempts:
    return Attempts(parts.jobs, parts.rewriting, parts.scheduler, ATTEMPTS)
