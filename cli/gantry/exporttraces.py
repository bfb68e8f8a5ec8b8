"""`gantry export-traces`: each ended job as a trace, for an OpenTelemetry collector.

Source: `cli.traces`.
"""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cli.commands import Command
from cli.connection import open_feed, open_luxid
from cli.exitcodes import DONE
from cli.remoteoptions import remote_options, remote_place
from cli.screen import remark
from common.errors import InvalidRequest
from common.system.program import release
from common.words.instants import Toward, parse_instant
from protocol.luxi.queries import QueryClusterInfo

if TYPE_CHECKING:
    # only the command itself imports it
    from cli.traces.following import EndedFeed

_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@click.command(
    "export-traces",
    cls=Command,
    examples=(
        "gantry export-traces --state /var/lib/gantry-traces/place.json",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 gantry export-traces --state place.json --since '2h ago'",
    ),
)
@click.option(
    "--state",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File that keeps how far the export came; it is made if it is missing.",
)
@click.option(
    "--since",
    help="Where the file is new: also jobs that have ended since then, such as 2h (ago) or '2026-11-21 02:00'.",
)
def export_traces(path: Path, since: str | None) -> int:
    """Follow the jobs and send each one, when it has ended, as a trace to a collector, by OTLP over HTTP; until Ctrl-C.

    A job is a span from its submission to its end, with its labels; under it are spans of what it waited for and of its
    opcodes, with their waits for locks. With a traceparent it belongs to that trace; one that says that nothing is
    recorded is obeyed. The ids of spans follow from the cluster and the job.

    Where and how to send is said by OpenTelemetry's variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, by default
    http://localhost:4318, OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE. Jobs of others have what lists
    show of them. It needs Gantry with its extra otel: pip install '.[otel]' in its sources.

    A collector that is away is waited for, and nothing is lost meanwhile, as long as the jobs are kept. After a restart
    the export goes on where it was: a job is not left out, and not sent twice, unless the process is killed between the
    collector's reply and the note of it: then at most 50 jobs are sent again, as the same spans.
    """
    if not _has_libraries():
        raise InvalidRequest(
            "the libraries of OpenTelemetry are not installed here; pip install '.[otel]' in Gantry's sources does that"
        )
    # imported late: they take half a second
    from cli.traces.collector import TraceCollector
    from cli.traces.following import TraceExport
    from cli.traces.place import ExportPlace, PlaceFile
    from cli.traces.spans import TracedCluster

    file = PlaceFile(path)
    with file.claimed():
        place = file.read()
        if place is not None and since is not None:
            raise InvalidRequest(f"'{path}' says how far the export came; leave --since out, or name another file")
        with open_luxid() as luxid:
            info = luxid.call(QueryClusterInfo())
        cluster = TracedCluster(str(info["uuid"]), str(info["name"]))
        if place is None:
            now = time.time()
            place = ExportPlace(cluster.uuid, None, now if since is None else _instant(since, now))
            file.write(place)
        elif place.cluster != cluster.uuid:
            raise InvalidRequest(f"'{path}' is of another cluster, '{place.cluster}'; this one is '{cluster.uuid}'")
        remark(f"exporting the jobs of '{cluster.name}'")
        TraceExport(cluster, TraceCollector(cluster, release()), file, place, open_luxid, _feed(), remark).run()
    return DONE


# it may run anywhere, with a token that reads jobs
export_traces.params += remote_options(is_hidden=False)


def _feed() -> "EndedFeed":
    place = remote_place()
    if place is not None:
        # imported late: an HTTP client costs as much as all the rest of a command
        from cli.traces.elsewhere import rapid_feed

        return rapid_feed(place)
    from cli.traces.following import luxid_feed

    return luxid_feed(open_feed)


def _has_libraries() -> bool:
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


def _instant(text: str, now: float) -> float:
    return parse_instant(text, now, None, Toward.PAST)
