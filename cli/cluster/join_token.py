"""`gnt-cluster join-token`: let a machine join the cluster."""

import time
from typing import Final

import click
from click.core import ParameterSource

from cli.clusterstate.processes import listens
from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.options import POSITIVE_DURATION
from cli.screen import remark, say, say_json, say_result, warn
from cli.tables import Column, say_table
from common.daemons import NodeKind
from common.errors import Conflict
from common.nodes.certificates import fingerprint_of
from common.nodes.joining import EXPIRES_S, JoinToken, JoinTokenFiles, JoinTokenText
from common.nodes.nodeplace import own_address, place_of
from common.settings import Settings
from common.words.times import clock

# time for the node daemon to open its port
_OPENING_S: Final = 5.0
_COLUMNS: Final = (Column("TOKEN"), Column("STATE"), Column("EXPIRES"), Column("FOR"), Column("USED BY"))


@click.command(
    "join-token",
    cls=Command,
    examples=("gnt-cluster join-token", "gnt-cluster join-token --expires 10m", "gnt-cluster join-token --readd web2"),
)
@click.option("--expires", type=POSITIVE_DURATION, default=EXPIRES_S, help="How long it may be used (1h).")
@click.option("--readd", metavar="NODE", default="", help="Only for this node, which was in the cluster before.")
@click.option("--list", "is_list", is_flag=True, help="List the tokens, without their secrets.")
@click.option("--revoke", metavar="TOKEN", help="Revoke this token; its first eight digits name it.")
def join_token(expires: float, readd: str, is_list: bool, revoke: str | None) -> int:
    """Make a token, and print the command with which one new machine joins; to be run on the master."""
    _refuse_mixture(is_list=is_list, is_revoking=revoke is not None)
    settings = installation()
    files = JoinTokenFiles(settings.paths)
    files.check_user()
    if is_list:
        return _list(files.list(), time.time())
    if revoke is not None:
        files.revoke(revoke[:8])
        say_result({"revoked": revoke[:8]}, f"token '{revoke[:8]}' is revoked")
        return DONE
    _refuse_others(settings)
    fingerprint = fingerprint_of(settings.paths.server_pem.read_bytes())
    token, secret = files.make(expires, readd, time.time())
    _tell(settings, token, JoinTokenText(token.id, secret, fingerprint))
    return DONE


def _refuse_mixture(*, is_list: bool, is_revoking: bool) -> None:
    """Raises: click.UsageError: options are given of which one would have no effect."""
    ctx = click.get_current_context()
    given = [name for name, is_given in (("--list", is_list), ("--revoke", is_revoking)) if is_given]
    if given:
        names = {"expires": "--expires", "readd": "--readd"}
        given += [
            option for name, option in names.items() if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other; give one of them")


def _refuse_others(settings: Settings) -> None:
    """Raises: Conflict: machines cannot join here."""
    if not settings.cluster.has_nodes:
        raise Conflict('this cluster is one machine: set replication = "nodes" in [cluster], and restart the daemons')
    if place_of(settings) is not NodeKind.MASTER or not settings.paths.config_data.exists():
        raise Conflict("this node is not the master; make the token there ('gnt-cluster info' tells which it is)")


def _tell(settings: Settings, token: JoinToken, text: JoinTokenText) -> None:
    rules = settings.noded
    address = own_address(settings)
    place = f"[{address}]:{rules.join_port}" if ":" in address else f"{address}:{rules.join_port}"
    command = f"gantry join {place} --token {text}" + (f" --force --node {token.readd}" if token.readd else "")
    if wants_json():
        say_json({"command": command, "token": str(text), "id": token.id, "expires_at": token.expires_at})
    else:
        say(command)
        remark(f"for one machine, until {clock(token.expires_at)}; run the command there, as root")
    if not listens(address, rules.join_port, _OPENING_S):
        warn(f"nothing listens at {place} yet: the node daemon opens that port; does it run (gantry status)?")


def _list(tokens: list[JoinToken], now: float) -> int:
    if wants_json():
        say_json([_json(token, now) for token in tokens])
        return DONE
    rows = [
        [token.id, _state(token, now), clock(token.expires_at), token.readd or "a new node", _user(token)]
        for token in tokens
    ]
    say_table(_COLUMNS, rows)
    return DONE


def _json(token: JoinToken, now: float) -> dict[str, object]:
    return {
        "id": token.id,
        "state": _state(token, now),
        "expires_at": token.expires_at,
        "readd": token.readd or None,
        "used_by": token.use.node if token.use else None,
        "job": token.use.job_id if token.use else None,
    }


def _state(token: JoinToken, now: float) -> str:
    if token.use is not None:
        return "used"
    return "valid" if now < token.expires_at else "expired"


def _user(token: JoinToken) -> str:
    return f"{token.use.node} ({token.use.address})" if token.use else ""
