"""Drive rapid by Ganeti's own client: `make test-rapi`.

The client is Debian's package python3-ganeti-rapi, a black box: `session.py` uses it, run by the system's Python. The
cluster has a recorded configuration with instances and a network, rapid speaks TLS and knows two users.

Exit code 1: something is not as Ganeti's client expects it. 2: the client is not installed, and cannot be.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

from tests.support.configs import recorded_json
from tests.support.machines.nodes import HOST
from tests.support.web.rapid import Web

PYTHON = "/usr/bin/python3"
PACKAGE = "python3-ganeti-rapi"
SESSION = Path(__file__).with_name("session.py")
SETTINGS = "ganeti_rights = true\n[luxid]\nsweep_s = 3600.0\n"
USERS = "peer secret write\nreader rsecret read\n"


def main() -> int:
    if not is_installed():
        install()
    with tempfile.TemporaryDirectory() as root, Web(Path(root), SETTINGS) as web:
        web.paths.config_data.write_bytes(orjson.dumps(recorded_json()))
        web.put_users(USERS)
        web.start()
        ended = subprocess.run([PYTHON, str(SESSION), HOST, str(web.port), str(web.paths.rapi_pem)], check=False)
        if ended.returncode:
            print(web.log()[-4000:], file=sys.stderr)
        return 1 if ended.returncode else 0


def is_installed() -> bool:
    return subprocess.run([PYTHON, "-c", "import ganeti.rapi.client"], capture_output=True, check=False).returncode == 0


def install() -> None:
    """Install the client, where this user may. Raises: SystemExit."""
    if os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", PACKAGE], check=False)
    if not is_installed():
        print(f"Ganeti's client is not installed; as root: apt-get install {PACKAGE}", file=sys.stderr)
        raise SystemExit(2)


if __name__ == "__main__":
    sys.exit(main())
