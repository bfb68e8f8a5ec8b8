"""What holds for every property test: no judgement by the clock, and the same examples at each run.

With GANTRY_SEED set, to anything, the examples are new ones.

Daemons are forked from a process that has loaded their code, which saves more than half of the suite's time.

Tests in a browser run only where they are named: `make test-browser`.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cluster import Cluster
from tests.support.etcdfixtures import crashable_etcd, etcd, module_etcd

__all__ = ["crashable_etcd", "etcd", "module_etcd"]

settings.register_profile(
    "gantry",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="GANTRY_SEED" not in os.environ,
)
settings.load_profile("gantry")
Cluster.FORKS = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_named = any("tests/browser" in argument for argument in config.invocation_params.args)
    return True if collection_path.name == "browser" and not is_named else None
