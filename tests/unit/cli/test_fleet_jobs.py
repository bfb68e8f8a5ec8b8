"""The jobs of a fleet while they are followed (DESIGN section 13, "Fleet")."""

from typing import Any

from cli.live.fleet import LINES_KEPT, OutputTail, fleet_of
from cli.live.following import JobUpdate
from protocol.luxi.jobs import OutputStream

OUT, ERR = OutputStream.OUTPUT, OutputStream.ERROR


def rows(*nodes: str | None) -> list[Any]:
    return [{"id": number, "ops": [{"OP_ID": "OP_RUN_COMMAND", "node": node}]} for number, node in enumerate(nodes, 1)]


def test_lines_come_together_from_pieces_and_only_the_last_are_kept() -> None:
    lines = OutputTail()
    for piece in ("a", "b\n\n  \nc\n", *(f"{number}\n" for number in range(9)), "end"):
        lines.take(piece, OUT)

    assert lines.lines() == ["5", "6", "7", "8", "end"]
    assert len(lines.lines()) == LINES_KEPT


def test_streams_do_not_tear_each_others_lines() -> None:
    lines = OutputTail()
    for stream, piece in ((OUT, "hel"), (ERR, "oh"), (OUT, "lo\n"), (ERR, "!\n")):
        lines.take(piece, stream)

    assert lines.lines() == ["hello", "oh!"]


def test_of_a_line_that_is_written_over_the_last_state_is_shown_and_nothing_that_a_terminal_obeys() -> None:
    lines = OutputTail()
    lines.take("10%\r50%\r100%\r\n\x1b[31mred\tink\n", OUT)

    assert lines.lines() == ["100%", "\\x1b[31mred ink"]


def test_a_line_without_an_end_takes_no_more_memory_than_others() -> None:
    lines = OutputTail()
    for _ in range(100):
        lines.take("x" * 1000, OUT)

    assert [len(line) for line in lines.lines()] == [500]


def test_nodes_of_one_domain_are_shown_without_it() -> None:
    def shown(*names: str) -> list[str]:
        fleet = fleet_of(rows(*names))
        assert fleet is not None
        return [job.element for job in fleet.jobs.values()]

    assert shown("web1.a.lab", "web2.a.lab") == ["web1", "web2"]
    assert shown("web1.a", "web1.b") == ["web1.a", "web1.b"]
    assert shown("web1", "web2") == ["web1", "web2"]


def test_jobs_are_a_fleet_only_if_each_has_a_node() -> None:
    assert fleet_of(rows("web1")) is None
    assert fleet_of(rows("web1", None)) is None


def each_row(job_id: int, host: str, node: str | None = None) -> Any:
    batch = ["gantry:batch", f"id=b1;place={job_id};jobs=2;each=host", 1]
    terms = ["gantry:terms", f'{{"labels":{{"host":"{host}","team":"web"}}}}', 1]
    return {"id": job_id, "ops": [{"OP_ID": "OP_RUN_COMMAND", "node": node, "reason": [batch, terms]}]}


def test_jobs_for_values_are_told_by_them() -> None:
    fleet = fleet_of([each_row(1, "web1"), each_row(2, "web 2")])
    both = fleet_of([each_row(1, "a", "n1.lab"), each_row(2, "b", "n2.lab")])

    assert fleet is not None
    assert both is not None
    assert [job.element for job in fleet.jobs.values()] == ["web1", "web 2"]
    assert (fleet.batch_id, fleet.names, fleet.noun) == ("b1", ("host",), "jobs")
    assert [job.element for job in both.jobs.values()] == ["a n1", "b n2"]
    assert both.names == ("host", "node")


def test_the_counts_tell_all_jobs() -> None:
    fleet = fleet_of(rows("a", "b", "c", "d"))
    assert fleet is not None
    for job_id, status in ((1, "success"), (2, "running"), (3, "waiting")):
        times: Any = {"status": status, "start_ts": [10, 0], "end_ts": [12, 500_000] if job_id == 1 else None}
        fleet.note(JobUpdate(job_id, status, times, ()))

    assert fleet.counts == "1 done, 1 running, 2 to go"
    assert (fleet.ended_count, fleet.lasted_s) == (1, 2.5)
