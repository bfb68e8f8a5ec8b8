"""Run a command on a cluster, show its output, and end with 0 if it succeeded.

    export GANTRY_REMOTE=https://gantry.example.com:5080 GANTRY_CA=rapi.crt GANTRY_TOKEN=...
    python submit.py apt-get --yes upgrade

The same GANTRY_KEY is the same job: a script that is started again does not submit again.
"""

import os
import sys

from common.errors import GantryError
from common.queue.jobs import JobState
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.place import Place


def main() -> int:
    place = Place.of_environment(os.environ)
    if place is None:
        sys.exit("GANTRY_REMOTE is not set: the address of the cluster")
    with RapidClient(place) as gantry:
        job_id = gantry.submit(
            [{"OP_ID": "OP_RUN_COMMAND", "argv": sys.argv[1:], "locks": {"node/web1": "exclusive"}}],
            key=os.environ.get("GANTRY_KEY"),
        )
        for piece in gantry.output(job_id, follow=True):
            print(piece, end="", flush=True)
        job = gantry.wait(job_id)
    return 0 if job.status is JobState.SUCCESS else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GantryError as error:
        sys.exit(f"error: {error.message}")
