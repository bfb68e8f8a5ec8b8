"""The table of /3 (DESIGN section 15)."""

from common.wire import structure
from daemons.rapid.resources.parameters import EXAMPLES
from daemons.rapid.rpc import resource_rows


def test_no_call_is_there_twice_and_each_says_who_may_make_it() -> None:
    calls = resource_rows()

    names = [(call.verb, call.path) for call in calls]
    assert len(set(names)) == len(names) >= 40
    assert all(call.rights and call.tag and call.summary.endswith(".") for call in calls)


def test_a_fixed_path_is_never_hidden_by_one_with_a_number() -> None:
    # "/3/jobs/{id:int}" does not match "/3/jobs/query"; uuids do match all words, so those come later
    filters = [call.path for call in resource_rows() if call.path.startswith("/3/filters/")]

    assert filters.index("/3/filters/try") < filters.index("/3/filters/{uuid}")


def test_each_example_belongs_to_a_call_and_can_be_read_by_it() -> None:
    takes = {(call.verb, call.path): call.takes for call in resource_rows()}

    for name, bodies in EXAMPLES.items():
        kind = takes[name]
        assert isinstance(kind, type), name
        for body in bodies.values():
            structure(body, kind)
