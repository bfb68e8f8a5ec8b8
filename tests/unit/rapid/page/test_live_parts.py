"""Only what differs is sent to an open page."""

from daemons.rapid.page.live.parts import appended, event, partials


def row(job_id: int, text: str) -> str:
    return f'<tr id="job-{job_id}">\n<td>{text}</td>\n</tr>'


def listed(*rows: str, head: str = "") -> str:
    return f'<section id="list">{head}{"".join(rows)}</section>'


def test_at_first_all_parts_are_sent() -> None:
    (sent,) = partials({}, {"tiles": '<div id="tiles">1</div>'})

    assert sent == '<hx-partial hx-target="#tiles" hx-swap="outerMorph"><div id="tiles">1</div></hx-partial>'


def test_what_is_the_same_is_not_sent() -> None:
    assert list(partials({"tiles": "a", "locks": "b"}, {"tiles": "a", "locks": "b"})) == []


def test_of_the_same_list_only_the_changed_rows_are_sent() -> None:
    before, after = listed(row(2, "waiting"), row(1, "running")), listed(row(2, "running"), row(1, "running"))

    (sent,) = partials({"list": before}, {"list": after})

    assert 'hx-target="#job-2"' in sent
    assert "job-1" not in sent


def test_another_list_is_sent_whole() -> None:
    before = listed(row(1, "running"))
    for after in (listed(row(2, "queued"), row(1, "running")), listed(), listed(row(1, "running"), head="2 jobs")):
        (sent,) = partials({"list": before}, {"list": after})

        assert 'hx-target="#list"' in sent


def test_a_message_has_no_line_that_is_not_its_own() -> None:
    message = event("one\r\ntwo\rthree\n\nfour", "7").decode()

    assert message == "id: 7\ndata: one\ndata: two\ndata: three\ndata: \ndata: four\n\n"


def test_output_is_added() -> None:
    assert (
        appended("output", "&lt;b&gt;") == '<hx-partial hx-target="#output" hx-swap="beforeend">&lt;b&gt;</hx-partial>'
    )


def test_output_takes_the_place_of_what_was_left_out_of_it() -> None:
    assert appended("rows", "a", is_all=True) == '<hx-partial hx-target="#rows" hx-swap="innerHTML">a</hx-partial>'
