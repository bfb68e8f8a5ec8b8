"""Try the HTTP interface with what its document allows, and what it forbids: schemathesis over a real cluster.

make test-api

No reply may be a fault of the server, have a status, a type or a form that the document does not name. A rule before
all others refuses every job, and the user has no login: nothing that is made up here is ever run.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.web.rapid import Web

_USER: Final = "api:made-up"
_JOBS: Final = 3
_CHECKS: Final = "status_code_conformance,content_type_conformance,response_schema_conformance"
# paths -> checks; under /2 an unknown method is 501, as in Ganeti: there a crash shows in the log
_PARTS: Final = {"^/3": f"not_a_server_error,{_CHECKS}", "^/2/": _CHECKS}
# a closed queue is 503 for all that follows; a stream never ends; and single rules are changed and deleted elsewhere:
# made-up requests name those that were seen in replies, and the one that refuses all jobs must stay
_LEFT_OUT: Final = r"^/3/(queue/(un)?drain|events)|^/[23]/filters/\{"
# of rules with one priority and watermark, the first
_FIRST_RULE: Final = "/3/filters/00000000-0000-0000-0000-000000000000"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", type=Path, help="schemathesis, in an environment of its own")
    parser.add_argument("--examples", type=int, default=8, help="random requests of each call")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="api-") as folder, Web(Path(folder)) as web:
        web.put_users(f"{_USER.replace(':', ' ')} operate\n")
        web.start()
        _prepare(web)
        codes = [_run(web, chosen, paths, checks) for paths, checks in _PARTS.items()]
        return max(*codes, _faults(web))


def _prepare(web: Web) -> None:
    """Some ended jobs to look at, then the rule."""
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "hello"]}
    for job in web.local.post("/3/jobs", json={"jobs": [{"ops": [op]}] * _JOBS}).json()["jobs"]:
        web.local.get(f"/3/jobs/{job['id']}/wait?until=final").raise_for_status()
    web.local.put(_FIRST_RULE, json={"action": "REJECT"}).raise_for_status()


def _run(web: Web, chosen: argparse.Namespace, paths: str, checks: str) -> int:
    words = [
        *(str(chosen.program.absolute()), "run", f"{web.url}/3/openapi.json", "--auth", _USER, "--tls-verify", "false"),
        *("--checks", checks, "--include-path-regex", paths, "--exclude-path-regex", _LEFT_OUT),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", str(chosen.examples), "--seed", str(chosen.seed)),
        *("--continue-on-failure", "--request-timeout", "30", "--no-color", "--warnings", "off"),
    ]
    return subprocess.run(words, cwd=web.cluster.root, check=False).returncode


def _faults(web: Web) -> int:
    """1 if a handler has failed, or a made-up job was taken."""
    crashes = [line for line in web.log().splitlines() if "call.crashed" in line or "Traceback" in line]
    jobs = web.local.get("/3/jobs?archived=true&fields=id").json()["jobs"]
    for line in crashes:
        print(line, file=sys.stderr)
    if len(jobs) != _JOBS:
        print(f"{len(jobs)} jobs are there, not {_JOBS}", file=sys.stderr)
    return int(bool(crashes) or len(jobs) != _JOBS)


if __name__ == "__main__":
    sys.exit(main())
