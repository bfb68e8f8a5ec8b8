"""make demo: the maintenance of a small fleet, from an empty folder to a proof, in half a minute."""

import json
import os
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
    with tempfile.TemporaryDirectory(prefix="gantry-demo-") as scratch:
        os.environ["GANTRY_ROOT"] = f"{scratch}/cluster"
        try:
            return demo(Path(scratch))
        finally:
            quietly("gantry", "down")


def demo(folder: Path) -> int:
    began = time.monotonic()
    say(f"A fleet of {len(NODES)} nodes in {folder}: files, checksums, and an empty store for backups")
    build_fleet(folder)

    say("A cluster of its own: wconfd, the fork server and luxid, three processes")
    show("gantry", "up", "--detach")

    plan = maintenance_plan(folder)
    say(f"The plan: {len(plan.jobs)} chained jobs, all real commands; the change of {UNLUCKY} does damage on purpose")
    print("Each node: drain -> back up -> change -> verify -> undrain, under its own lock, sharing the store's")
    file = folder / "plan.json"
    file.write_text(json.dumps(plan.jobs))
    ids = [str(number) for number in submit(file)]

    say("Live: what each job does, or waits for")
    show("gnt-job", "watch", *ids, check=False)

    say("Why the unlucky one failed, in the words of its command")
    show("gnt-job", "output", ids[plan.names.index(f"verify {UNLUCKY}")])

    say("Proof, from the job files alone")
    proved = prove(folder, ids)
    say("The cluster is stopped, nothing is left behind")
    show("gantry", "down")
    print(f"\n{time.monotonic() - began:.1f} s in all")
    return 0 if proved else 1


def submit(file: Path) -> list[int]:
    print(f"{DIM}$ gnt-job submit {file.name}{PLAIN}")
    ids = [answer[1] for answer in json.loads(quietly("gnt-job", "submit", "--output", "json", str(file)))]
    print(f"jobs {ids[0]} to {ids[-1]}")
    return ids


def prove(folder: Path, ids: list[str]) -> bool:
    listed = json.loads(quietly("gnt-job", "list", "--output", "json", "-o", "id,status,ops,opexec,opend", *ids))
    jobs = [read_job(fields) for fields in listed]
    print("\n".join(timeline(jobs)) + "\n")
    claims = list(check(jobs))
    sums = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder / "fleet" / UNLUCKY, check=False)
    claims.append((sums.returncode == 0, f"{UNLUCKY} is whole again: its checksums are right"))
    locks = json.loads(quietly("gnt-debug", "locks", "--output", "json"))
    claims.append(
        (not any(lock["owners"] or lock["pending"] for lock in locks), "no lock is held or waited for any more")
    )
    return show_claims(claims)


if __name__ == "__main__":
    sys.exit(main())
