"""How many jobs may run and be followed: limits of the cluster. Pure; results as in `core.instances`.

Source: luxid.md 5.3; DESIGN section 11.
"""

import attrs

from common.objects.config import Config
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import touched


def set_job_limits(config: Config, max_running: int | None, max_tracked: int | None, now: float) -> Config:
    """With these limits; None leaves one as it is. Nothing changes if they are so already."""
    wanted = {"max_running_jobs": max_running, "max_tracked_jobs": max_tracked}
    after = attrs.evolve(config.cluster, **{name: value for name, value in wanted.items() if value is not None})  # type: ignore[arg-type]
    if after == config.cluster:
        return config
    return advanced(config, attrs.evolve(config, cluster=touched(after, now)), now)


def job_limits(config: Config) -> tuple[int, int]:
    """Jobs that may run at once, and jobs that may be followed at once."""
    return config.cluster.max_running_jobs, config.cluster.max_tracked_jobs
