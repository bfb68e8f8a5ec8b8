"""The verbs of `gnt-debug` that ask nodes: confd and mond."""

import http.client
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import click
import orjson

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.options import DURATION, complete_node, host_and_port
from cli.screen import say, say_json, warn
from cli.tables import Column, Layout, render, say_table, table_options
from common.errors import InvalidRequest, NotFound, PrerequisiteError, ProtocolError, Unavailable
from common.nodes.nodeplace import node_ips
from common.objects.kinds import short_names
from common.paths import Paths
from common.printable import json_text
from common.settings import Settings
from common.shapes import Lenient
from common.wire import structure
from common.words.times import clock
from protocol.confd.client import EXPIRE_S, ask_confd, candidates, read_key
from protocol.confd.gathering import ConfdPeer, GatheredReplies
from protocol.confd.questions import Argument, ConfdRole, MasterField, Question, Reply, ReplyStatus, Terms

# Answers of confd as text: one that is a list has a line for each element, one with parts is JSON.
#
# Source: confd.md 4.


_MINORS: Final = (
    Column("NODE"),
    Column("MINOR", is_number=True),
    Column("INSTANCE"),
    Column("DISK"),
    Column("ROLE"),
    Column("PEER"),
)


def answer_lines(question: Question, answer: object, layout: Layout) -> Iterator[str]:
    """The lines of an answer."""
    if question is Question.NODE_DRBD and isinstance(answer, list):
        yield from render(_MINORS, [[str(cell) for cell in row] for row in answer], layout)
    elif isinstance(answer, list):
        yield from (_text(question, each) for each in answer)
    else:
        yield _text(question, answer)


def short_answer(question: Question, reply: Reply) -> str:
    """A reply in one cell of a table."""
    if reply.status is not ReplyStatus.OK:
        return str(reply.answer).partition("\n")[0] if isinstance(reply.answer, str) else f"error {reply.answer}"
    return _text(question, reply.answer)


def _text(question: Question, value: object) -> str:
    if question is Question.NODE_ROLE and value in list(ConfdRole):
        return next(role for role in ConfdRole if role == value).name.lower()
    return value if isinstance(value, str) else json_text(value)


# The primary addresses of nodes, as this node knows them by its files of ssconf.


def address_of(paths: Paths, name: str) -> str:
    """The address of a node; its name may be cut at a dot.

    Raises: PrerequisiteError: no node, or several, have the name. NotFound: this node knows no nodes.
    """
    known = node_ips(paths)
    if not known:
        raise NotFound(f"this node knows no nodes ('{paths.ssconf_file('node_primary_ips')}')")
    matches = [name] if name in known else [each for each in known if name in short_names(each)]
    if len(matches) != 1:
        why = f"'{name}' may be any of {', '.join(matches)}" if matches else f"there is no node '{name}'"
        raise PrerequisiteError(why, "unknown_entity")
    return known[matches[0]]


# `gnt-debug confd`: ask master candidates about the configuration.
#
# Source: confd.md 4 and 6.


@attrs.frozen
class _Query:
    """How a question is asked by its name."""

    question: Question
    help: str
    # makes the argument of the words and the link; the least and the highest number of words
    argument: Callable[[Sequence[str], str | None], Argument] = lambda words, link: words[0] if words else None
    least: int = 0
    most: int = 0
    words: str = ""


def _ips(words: Sequence[str], link: str | None) -> Argument:
    return Terms(link, words[0]) if len(words) == 1 else Terms(link, ips=tuple(words))


def _fields(words: Sequence[str], _: str | None) -> Argument:
    known = {field.name.lower().replace("_", "-"): field for field in MasterField}
    for word in words:
        if word not in known:
            raise click.UsageError(f"the master has no field '{word}'; fields are {', '.join(known)}")
    return Terms(fields=tuple(known[word] for word in words)) if words else None


_QUERIES: Final[Mapping[str, _Query]] = {
    "ping": _Query(Question.PING, "version of the configuration's format"),
    "node-role": _Query(Question.NODE_ROLE, "role of a node", least=1, most=1, words="NODE"),
    "node-by-ip": _Query(
        Question.NODE_BY_INSTANCE_IP, "node that runs the instance with an address", _ips, 1, 100, "IP..."
    ),
    "master": _Query(Question.MASTER, "the master, or its name, ip, node-ip", _fields, 0, 3, "[FIELD]..."),
    "node-ips": _Query(Question.NODE_IPS, "addresses of all nodes"),
    "candidate-ips": _Query(Question.CANDIDATE_IPS, "addresses of the master candidates"),
    "instance-ips": _Query(Question.INSTANCE_IPS, "addresses of instances on a link", most=1, words="[LINK]"),
    "node-drbd": _Query(Question.NODE_DRBD, "DRBD minors of a node", least=1, most=1, words="NODE"),
    "node-instances": _Query(Question.NODE_INSTANCES, "instances of a node", least=1, most=1, words="NODE"),
    "instance-disks": _Query(Question.INSTANCE_DISKS, "disks of an instance", least=1, most=1, words="INSTANCE"),
    "config": _Query(Question.CONFIG, "value at a JSON pointer", least=1, most=1, words="/POINTER"),
    "collectors": _Query(Question.COLLECTORS, "settings of the collectors of mond"),
}
_QUERY_COLUMNS: Final = (Column("QUERY"), Column("ARGUMENTS"), Column("WHAT IT TELLS"))
_REPLY_COLUMNS: Final = (Column("PEER"), Column("STATUS"), Column("SERIAL", is_number=True), Column("ANSWER"))


@click.command(
    "confd",
    cls=Command,
    examples=(
        "gnt-debug confd",
        "gnt-debug confd node-role web1",
        "gnt-debug confd --all master name ip",
        "gnt-debug confd --node web2 config /cluster/serial_no",
    ),
)
@click.argument("query", required=False)
@click.argument("words", metavar="[ARGUMENT]...", nargs=-1)
@click.option("--all", "asks_all", is_flag=True, help="Ask all candidates, wait for all, and show each reply.")
@click.option(
    "--node",
    "nodes",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_node,
    help="Ask this node; may be repeated.",
)
@click.option("--peer", "peers", metavar="HOST[:PORT]", multiple=True, help="Ask this address; may be repeated.")
@click.option("--link", metavar="LINK", help="Of node-by-ip: the link, if it is not the cluster's usual one.")
@click.option("--timeout", type=DURATION, default=EXPIRE_S, help="How long replies may take (10s).")
@table_options
def confd(
    query: str | None,
    words: Sequence[str],
    asks_all: bool,
    nodes: Sequence[str],
    peers: Sequence[str],
    link: str | None,
    timeout: float,
    layout: Layout,
) -> int:
    """Ask several master candidates, and show the answer of the newest configuration; without QUERY list all queries.

    With --all, --node or --peer the reply of each one is shown. What is asked and answered is signed with the
    cluster's key.
    """
    if query is None:
        return _tell_queries(layout)
    asked = _query(query, words)
    settings = installation()
    own = [*_of_nodes(settings, nodes), *(_peer(settings, text) for text in peers)]
    is_each = asks_all or bool(own)
    outcome = ask_confd(
        read_key(settings.paths),
        own or candidates(settings.paths, settings.confd.port),
        asked.question,
        asked.argument(words, link),
        asks_all=is_each,
        timeout_s=timeout,
    )
    return _tell(outcome, layout, is_each=is_each)


def _query(name: str, words: Sequence[str]) -> _Query:
    found = _QUERIES.get(name)
    if found is None:
        raise click.UsageError(f"there is no query '{name}'; queries are {', '.join(_QUERIES)}")
    if not found.least <= len(words) <= found.most:
        raise click.UsageError(f"write: {name} {found.words}" if found.words else f"'{name}' has no argument")
    return found


def _tell_queries(layout: Layout) -> int:
    if wants_json():
        say_json({name: query.question.value for name, query in _QUERIES.items()})
        return DONE
    rows = [[name, query.words, query.help] for name, query in _QUERIES.items()]
    say_table(_QUERY_COLUMNS, rows, layout)
    return DONE


def _of_nodes(settings: Settings, names: Sequence[str]) -> Sequence[ConfdPeer]:
    return [ConfdPeer(address_of(settings.paths, name), settings.confd.port) for name in names]


def _peer(settings: Settings, text: str) -> ConfdPeer:
    """Raises: InvalidRequest: a port that is none. NotFound: a host that is not known, at all."""
    host, port = host_and_port(text, settings.confd.port, "HOST[:PORT]")
    try:
        return ConfdPeer(socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][4][0], port)  # type: ignore[arg-type]
    except OSError as error:
        raise NotFound(f"'{host}' cannot be resolved: {error.strerror}") from None


def _tell(outcome: GatheredReplies, layout: Layout, *, is_each: bool) -> int:
    if wants_json():
        say_json(_as_json(outcome))
    elif is_each:
        say_table(_REPLY_COLUMNS, _rows(outcome), layout)
    if not outcome.is_consistent:
        warn("answers of the same serial number differ; a change is on its way, or a copy is wrong")
    try:
        answer = outcome.answer()
    except NotFound as error:
        # a word from confd, which was reached
        raise PrerequisiteError(error.message, "unknown_entity") from error
    if not wants_json() and not is_each:
        for line in answer_lines(outcome.question, answer, layout):
            say(line)
    return DONE


def _rows(outcome: GatheredReplies) -> Sequence[Sequence[str]]:
    replied = [
        [str(peer), reply.status.name.lower(), str(reply.serial), short_answer(outcome.question, reply)]
        for peer, reply in sorted(outcome.replies.items())
    ]
    return [*replied, *([str(peer), "silent", "", ""] for peer in outcome.silent)]


def _as_json(outcome: GatheredReplies) -> Mapping[str, object]:
    def wire(status: ReplyStatus, answer: object, serial: int) -> Mapping[str, object]:
        return {"status": status.name.lower(), "answer": answer, "serial": serial}

    best = outcome.best
    return {
        **(wire(best.status, best.answer, best.serial) if best is not None else {"status": "silent"}),
        "consistent": outcome.is_consistent,
        "replies": {str(peer): wire(*attrs.astuple(reply, recurse=False)) for peer, reply in outcome.replies.items()},
        "silent": [str(peer) for peer in outcome.silent],
    }


# `gnt-debug mond`: what a node measures of itself.
#
# Source: mond.md 2.


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
def mond(node: str | None, collector: str | None, layout: Layout) -> int:
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
        say_table(_COLUMNS, [each.cells for each in reports], layout)
    return FAILED if any(each.status.get("code") for each in reports) else DONE


def _ask(host: str, port: int) -> tuple[_Report, ...]:
    """Raises: Unavailable: nobody replies. ProtocolError: it is not mond."""
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
        raise ProtocolError(f"what replies at {host} port {port} is not mond") from error
    finally:
        connection.close()
