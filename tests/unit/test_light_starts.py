"""What only one daemon needs is not loaded by the others, nor by programs that people wait for."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
WEB = {"anyio", "h11", "httpx2", "jinja2", "prometheus_client", "starlette"}
PROGRAMS = (
    "cli.gantry.main",
    "cli.job.main",
    "cli.filter.main",
    "daemons.luxid.main",
    "daemons.wconfd.main",
    "daemons.confd.main",
    "daemons.jobproc.forkserver.main",
    "daemons.supervisor.main",
)


def loaded(*modules: str) -> set[str]:
    """Top-level modules that are there after these were imported."""
    script = f"import sys, {', '.join(modules)}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    return set(done.stdout.split())


def test_only_daemons_that_speak_http_load_what_it_takes() -> None:
    assert loaded(*PROGRAMS) & (WEB | {"cryptography"}) == set()


def test_daemons_of_nodes_load_no_parts_of_rapid() -> None:
    assert loaded("daemons.noded.main", "daemons.mond.main") & (WEB - {"h11"}) == set()


def test_yaml_is_loaded_for_plans_only() -> None:
    assert "yaml" not in loaded(*PROGRAMS, "cli.job.run", "cli.job.submit")
