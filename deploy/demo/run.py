"""make demo: the maintenance of a small fleet, from an empty folder to a proof, in half a minute.

python -P deploy/demo/run.py [--stay]    --stay: the cluster and its web page stay until a key is pressed
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from fleet import NODES, UNLUCKY, build_fleet  # noqa: E402  # found by the path set above
from plan import maintenance_plan  # noqa: E402
from proof import check, read_job, timeline  # noqa: E402
from stage import DIM, PLAIN, quietly, say, show, show_claims  # noqa: E402


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gantry-") as scratch:
        os.environ["GANTRY_ROOT"] = f"{scratch}/root"
        try:
            return demo(Path(scratch))
        finally:
            quietly("gantry", "down")


def demo(folder: Path) -> int:
    began = time.monotonic()
    say(f"A fleet of {len(NODES)} nodes: files, checksums, and an empty store for backups")
    build_fleet(folder)

    say("A cluster of its own: wconfd, the fork server, luxid, and rapid for HTTP")
    url = enable_http(Path(os.environ["GANTRY_ROOT"]))
    show("gantry", "up", "--detach")
    password = name_user()
    print(f"its page: {url}/ui  user demo, password {password}")

    plan = maintenance_plan(folder)
    say(f"The plan: {len(plan.jobs)} chained jobs; the change of {UNLUCKY} does damage on purpose")
    print("Each node, under its lock: drain -> back up -> change -> verify -> undrain.")
    print("Backups share the lock of the store; the inventory wants it for itself.")
    file = folder / "plan.json"
    file.write_text(json.dumps({"jobs": plan.jobs}, indent=1))
    ids = [str(number) for number in submit(file)]

    say("Live: what each job does, or waits for")
    show("gnt-job", "watch", *ids, check=False)

    say(f"Why 'verify {UNLUCKY}' failed, in the words of its command")
    show("gnt-job", "output", ids[plan.names.index(f"verify {UNLUCKY}")])
    say("Which jobs were tried more than once")
    show("gnt-job", "list", "-o", "id,name,status,tries,labels", "--filter", "tries > 1")

    say(f"What {UNLUCKY} went through: its jobs by their label")
    show("gnt-job", "list", "-o", "id,name,status", "--filter", f"label.node={UNLUCKY}")

    say("Proof, from the job files alone")
    proved = prove(folder, ids, url)
    if "--stay" in sys.argv:
        print(f"\nThe page {url}/ui (user demo, password {password})")
        print(f"and the cluster (export GANTRY_ROOT={os.environ['GANTRY_ROOT']})")
        input("are there until you press Enter ")
    say("The cluster is stopped, nothing is left behind")
    show("gantry", "down")
    print(f"\n{time.monotonic() - began:.1f} s in all")
    return 0 if proved else 1


def enable_http(root: Path) -> str:
    """Have the cluster serve HTTP at a free port of this machine; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    root.mkdir(mode=0o700)
    (root / "gantry.toml").write_text(f'[rapid]\nenabled = true\naddress = "127.0.0.1"\nport = {port}\n')
    return f"https://127.0.0.1:{port}"


def name_user() -> str:
    """Name a user of the page; return the password."""
    password = secrets.token_urlsafe(9)
    quietly("gantry", "user", "add", "demo", "--role", "operate", "--password-file", "-", text=password)
    return password


def submit(file: Path) -> list[int]:
    print(f"{DIM}$ gnt-job submit {file.name}{PLAIN}")
    ids = [answer[1] for answer in json.loads(quietly("gnt-job", "submit", "--output", "json", str(file)))]
    print(f"jobs {ids[0]} to {ids[-1]}")
    return ids


def prove(folder: Path, ids: list[str], url: str) -> bool:
    listed = json.loads(
        quietly("gnt-job", "list", "--output", "json", "-o", "id,name,status,tries,ops,opexec,opend", *ids)
    )
    jobs = [read_job(fields) for fields in listed]
    print("\n".join(timeline(jobs)) + "\n")
    claims = list(check(jobs))
    sums = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder / "fleet" / UNLUCKY, check=False)
    claims.append((sums.returncode == 0, f"{UNLUCKY} is whole again: its checksums are right"))
    locks = json.loads(quietly("gnt-debug", "locks", "--output", "json"))
    claims.append(
        (not any(lock["owners"] or lock["pending"] for lock in locks), "no lock is held or waited for any more")
    )
    claims.append((seen_over_http(url, ids) == listed_states(ids), "the same states are told over HTTPS"))
    return show_claims(claims)


def listed_states(ids: list[str], *words: str) -> object:
    return json.loads(quietly("gnt-job", *words, "list", "--output", "json", "-o", "id,status", *ids))


def seen_over_http(url: str, ids: list[str]) -> object:
    """The states of the jobs as a token of another machine sees them."""
    root = Path(os.environ["GANTRY_ROOT"])
    made = quietly("gantry", "token", "create", "--for", "proof", "--rights", "jobs.read", "--expires", "1h")
    file = root / "token"
    file.touch(mode=0o600)
    file.write_text(made)
    return listed_states(ids, "--remote", url, "--ca", str(root / "lib" / "rapi.pem"), "--token-file", str(file))


if __name__ == "__main__":
    sys.exit(main())
