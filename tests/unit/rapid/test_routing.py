"""The row of a request: by path and verb, the first that fits; nothing that a client writes breaks it."""

import pytest

from daemons.rapid.calls import Asked, Call, Face
from daemons.rapid.transport.routing import Routes, face_of


async def nothing(_: Asked) -> None:
    pass


def row(verb: str, path: str, face: Face = Face.OURS) -> Call:
    return Call(verb, path, nothing, "", face=face)


ONE = row("GET", "/3/jobs/{id:int}")
CANCEL = row("post", "/3/jobs/{id:int}/cancel")
LIST = row("GET", "/3/jobs")
SUBMIT = row("POST", "/3/jobs")
GANETIS = row("GET", "/2/jobs/{id:int}", Face.GANETI)
ROUTES = Routes([LIST, SUBMIT, ONE, CANCEL, GANETIS])


def found(verb: str, path: str, raw: bytes | None = None) -> tuple[Call | None, dict[str, object], tuple[str, ...]]:
    hit = ROUTES.find({"method": verb, "path": path, "raw_path": path.encode() if raw is None else raw})
    return hit.call, dict(hit.params), hit.verbs


def test_variables_of_a_path_are_read() -> None:
    assert found("GET", "/3/jobs/17")[:2] == (ONE, {"id": 17})
    assert found("POST", "/3/jobs/17/cancel")[:2] == (CANCEL, {"id": 17})


def test_a_path_has_its_verbs_and_head_where_it_has_get() -> None:
    assert found("DELETE", "/3/jobs") == (None, {}, ("GET", "POST"))
    assert found("HEAD", "/3/jobs")[0] is LIST
    assert found("HEAD", "/2/jobs/1")[0] is None


@pytest.mark.parametrize("path", ["/3/jobs/", "/3/jobs/x", "/3/jobs/-1", "/3/jobs/1/cancel/", "//3/jobs", "", "*"])
def test_other_paths_have_no_row(path: str) -> None:
    assert found("GET", path) == (None, {}, ())


def test_numbers_that_are_too_long_to_read_are_no_path() -> None:
    assert found("GET", "/3/jobs/" + "9" * 5000) == (None, {}, ())
    assert found("GET", "/3/jobs/" + "9" * 1500)[0] is ONE


def test_ganetis_paths_are_taken_as_they_were_sent() -> None:
    assert found("GET", "/2/jobs/1", b"/2/jobs/%31")[0] is None
    assert found("GET", "/3/jobs/1", b"/3/jobs/%31")[0] is ONE


def test_two_rows_for_one_verb_and_path_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="two rows for GET /3/jobs"):
        Routes([LIST, row("get", "/3/jobs")])


def test_a_path_without_a_row_has_the_face_of_its_part() -> None:
    faces = {path: face_of(path) for path in ("/", "/version", "/2", "/2/x", "/3/x", "/ui", "/ui/x", "/uix", "/22")}

    assert faces == {
        **dict.fromkeys(("/", "/version", "/2", "/2/x"), Face.GANETI),
        **dict.fromkeys(("/ui", "/ui/x"), Face.PAGE),
        **dict.fromkeys(("/3/x", "/uix", "/22"), Face.OURS),
    }
