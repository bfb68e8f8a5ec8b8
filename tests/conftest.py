"""What holds for every property test: no judgement by the clock, and the same examples at each run.

With GANTRY_SEED set, to anything, the examples are new ones.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gantry",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="GANTRY_SEED" not in os.environ,
)
settings.load_profile("gantry")
