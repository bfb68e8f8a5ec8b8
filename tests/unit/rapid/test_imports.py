"""What HTTP needs is imported by rapid only; other daemons and job processes do not pay for it."""

import subprocess
import sys

OTHERS = ("daemons.luxid.main", "daemons.wconfd.main", "daemons.jobproc.forkserver.main", "daemons.supervisor.main")
OF_HTTP = {"starlette", "jinja2", "prometheus_client", "httpx2", "h11"}


def test_other_daemons_import_nothing_of_http() -> None:
    code = f"import sys, {', '.join(OTHERS)}; print(sorted({OF_HTTP!r} & set(sys.modules)))"

    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert found.stdout.strip() == "[]"
