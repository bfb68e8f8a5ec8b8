"""The examples of deploy/examples/http do what they say."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.webaccess.tokens import NewToken, TokensFile
from tests.cli.command import CHECKOUT, environment
from tests.support.accounts.users import OWN_LOGIN
from tests.support.web.rapid import Web

EXAMPLES = CHECKOUT / "deploy" / "examples" / "http"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
FAILS = "echo 'it says \"a\\\\b\"'; exit 4"


@pytest.fixture(scope="module")
def variables(web: Web) -> dict[str, str]:
    wish = NewToken("pipeline", ("jobs.submit", "jobs.read"), None, OWN_LOGIN)
    token = TokensFile(web.paths).create(wish, time.time())[1]
    address = web.url.replace("127.0.0.1", "localhost")
    return {"GANTRY_REMOTE": address, "GANTRY_CA": str(web.paths.rapi_pem), "GANTRY_TOKEN": str(token)}


def _run(argv: list[str], variables: dict[str, str]) -> tuple[int, str, str]:
    told = subprocess.run(
        argv, env=environment(variables), capture_output=True, text=True, timeout=120, check=False, cwd=CHECKOUT
    )
    return told.returncode, told.stdout, told.stderr


@needs_curl
def test_curl_submits_follows_and_tells_the_end(web: Web, variables: dict[str, str]) -> None:
    script = str(EXAMPLES / "submit.sh")

    assert _run([script, "echo a; echo b"], variables)[:2] == (0, "a\nb\n")
    code, out, _ = _run([script, FAILS], variables)
    assert (code, out) == (1, 'it says "a\\b"\n')


@needs_curl
def test_the_same_key_is_the_same_job(web: Web, variables: dict[str, str]) -> None:
    keyed = variables | {"GANTRY_KEY": "deploy-17"}
    runs = [_run([str(EXAMPLES / "submit.sh"), "echo $GANTRY_JOB_ID"], keyed) for _ in range(2)]

    assert runs[0][1] == runs[1][1] != ""


@needs_curl
def test_curl_tells_why_it_failed(variables: dict[str, str]) -> None:
    code, out, err = _run([str(EXAMPLES / "submit.sh"), "true"], variables | {"GANTRY_TOKEN": "wrong"})

    assert (code != 0, out) == (True, "")
    assert "401" in err
    assert "this token is not known here" in err


def test_python_submits_follows_and_tells_the_end(variables: dict[str, str]) -> None:
    script = [sys.executable, str(EXAMPLES / "submit.py")]

    assert _run([*script, "echo", "a"], variables) == (0, "a\n", "")
    assert _run([*script, "false"], variables) == (1, "", "")
    code, _, err = _run([*script, "true"], variables | {"GANTRY_TOKEN": "wrong"})
    assert (code, "does not know who calls" in err, "Traceback" in err) == (1, True, False)


def _script(step: str) -> list[str]:
    """The lines of the list `script` of a step; the file has one step and no YAML beyond that."""
    text = (EXAMPLES / "gitlab-ci.yml").read_text()
    found = re.search(rf"^{step}:\n(?:  .*\n)*?  script:\n((?:    - .*\n)+)", text, re.MULTILINE)
    assert found is not None
    return [line.removeprefix("    - ") for line in found[1].splitlines()]


def test_the_step_of_a_pipeline_runs_its_commands(variables: dict[str, str], tmp_path: Path) -> None:
    deploy, program = tmp_path / "deploy", tmp_path / "gnt-job"
    deploy.write_text('#!/bin/sh\necho "deployed $1"\n')
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -c "from cli.job.main import main; main()" "$@"\n')
    for path in (deploy, program):
        path.chmod(0o755)
    lines = [line.replace("/srv/deploy", str(deploy)).replace("/srv/clean-up", "true") for line in _script("deploy")]
    of_ci = {"CI_PIPELINE_ID": "17", "CI_COMMIT_SHORT_SHA": "abc123", "PATH": f"{tmp_path}:/usr/bin:/bin"}

    # as a runner does: one script that ends at the first failure
    code, out, err = _run(["/bin/sh", "-e", "-c", "\n".join(lines)], variables | of_ci)

    assert (code, err) == (0, "")
    assert len(lines) == 3
    assert "\ndeployed abc123\n" in f"\n{out}"
