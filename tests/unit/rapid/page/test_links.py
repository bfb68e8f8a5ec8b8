"""Texts with links."""

from daemons.rapid.page.views.frame import TextPart, linked, lock_href, owner_href, with_query


def test_jobs_lead_to_their_pages() -> None:
    assert linked("behind job/12, job 14") == (
        TextPart("behind "),
        TextPart("job/12", "/ui/jobs/12"),
        TextPart(", "),
        TextPart("job 14", "/ui/jobs/14"),
    )


def test_the_text_is_never_changed() -> None:
    for text in ("", "job/", "<b>job/7</b>", "nojob/7 jobs 7", "job/123456789012345678901"):
        assert "".join(piece.text for piece in linked(text, {"<b>": "/x"})) == text


def test_of_two_names_the_longer_one_is_found() -> None:
    pieces = linked("for node/web10", {"node/web1": "/one", "node/web10": "/ten"})

    assert pieces == (TextPart("for "), TextPart("node/web10", "/ten"))


def test_names_in_addresses_are_escaped() -> None:
    assert lock_href('node/"&x') == "/ui/locks?lock=node%2F%22%26x"
    assert with_query("/ui/jobs", [("where", "a=b & c"), ("after", None)]) == "/ui/jobs?where=a%3Db+%26+c"


def test_only_jobs_have_pages() -> None:
    assert owner_href("job/7") == "/ui/jobs/7"
    assert owner_href("job/x") is None
    assert owner_href("backup") is None
