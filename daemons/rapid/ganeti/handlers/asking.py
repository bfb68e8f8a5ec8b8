"""What a handler reads of a request, in the words of the core."""

import time

from common.errors import NotFound
from common.ids import JobId
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core.arguments import Arguments
from daemons.rapid.ganeti.core.writes import Asking


def arguments_of(asked: Asked) -> Arguments:
    return Arguments.of(asked.http.query_params.multi_items())


def name_of(asked: Asked) -> str:
    """The name or UUID in the path."""
    return str(asked.http.path_params["name"])


def job_id_of(asked: Asked) -> JobId:
    return JobId(int(asked.http.path_params["id"]))


def asking_of(asked: Asked) -> Asking:
    names = {name: str(value) for name, value in asked.http.path_params.items()}
    return Asking(names, arguments_of(asked), asked.body, time.time_ns())


def no_job(job_id: JobId) -> NotFound:
    return NotFound(f"there is no job {job_id}, neither in the queue nor in the archive")
