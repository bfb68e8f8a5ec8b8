"""`gnt-debug mond`: what a node measures of itself.

Source: mond.md 2.
"""

import http.client
from collections.abc import Mapping
from typing import Final

import attrs
import click
import orjson

from cli.choosing.namecompletion import complete_node
from cli.commands import Command
from cli.context import installation, wants_json
from cli.debug.nodeaddresses import address_of
from cli.exitcodes import DONE, FAILED
from cli.options import table_options
from cli.screen import say, say_json
from cli.tables import Column, Layout, render
from common.errors import InvalidRequest, PrerequisiteError, ProtocolError, Unavailable
from common.shapes import Lenient
from common.wire import structure
from common.words.text import json_text
from common.words.times import clock

_COLUMNS: Final = (Column("COLLECTOR"), Column("CATEGORY"), Column("AT"), Column("STATUS"), Column("MESSAGE"))
_WORDS: Final = {0: "ok", 1: "repaired", 2: "unknown", 4: "bad"}
_TIMEOUT_S: Final = 10.0


@attrs.frozen(kw_only=True)
class _Report(Lenient):
    """What a collector tells; later releases may tell more."""

    name: str
    category: str | None
    timestamp: int
    data: object

    @property
    def status(self) -> Mapping[str, object]:
        status = self.data.get("status") if isinstance(self.data, dict) else None
        return status if isinstance(status, dict) else {}

    @property
    def cells(self) -> list[str]:
        code = self.status.get("code", 0)
        word = _WORDS.get(code, str(code)) if isinstance(code, int) else str(code)
        message = str(self.status.get("message", "")).strip().replace("\n", "; ")
        return [self.name, self.category or "", clock(self.timestamp / 1e9), word, message]


@click.command("mond", cls=Command, examples=("gnt-debug mond", "gnt-debug mond web1", "gnt-debug mond web1 memory"))
@click.argument("node", required=False, shell_complete=complete_node)
@click.argument("collector", required=False)
@table_options
def mond(node: str | None, collector: str | None, no_headers: bool, separator: str | None) -> int:
    """Show how each collector of NODE is (without NODE: of this one), or what COLLECTOR has found.

    The exit code is 1 if one of them is not well.
    """
    settings = installation()
    is_here = node is None or node == settings.cluster.own_name
    host = settings.mond_address if is_here or node is None else address_of(settings.paths, node)
    reports = [each for each in _ask(host, settings.mond.port) if collector in (None, each.name)]
    if collector is not None and not reports:
        raise PrerequisiteError(
            f"no collector '{collector}' is active there; 'gnt-debug mond' lists those that are", "unknown_entity"
        )
    if wants_json():
        say_json([attrs.asdict(each) for each in reports])
    elif collector is not None:
        say(json_text(reports[0].data))
    else:
        for line in render(_COLUMNS, [each.cells for each in reports], Layout(not no_headers, separator)):
            say(line)
    return FAILED if any(each.status.get("code") for each in reports) else DONE


def _ask(host: str, port: int) -> tuple[_Report, ...]:
    """Raises: Unavailable: nobody replies. ProtocolError: it is no mond."""
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/1/report/all")
        return structure(orjson.loads(connection.getresponse().read()), tuple[_Report, ...], "reports")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"mond does not reply at {host} port {port}: {str(error).lower()}; other machines reach it only where "
            "'address' in '[mond]' of that node's settings lets them"
        ) from error
    except (orjson.JSONDecodeError, InvalidRequest) as error:
        raise ProtocolError(f"what replies at {host} port {port} is no mond") from error
    finally:
        connection.close()
