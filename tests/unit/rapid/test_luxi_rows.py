"""The table of LUXI over HTTP: each method of luxid stands in it, and no token gains by it."""

from typing import Any, cast

import attrs

from common.access import Role
from common.webaccess.rights import ROLE_OF, Right
from daemons.luxid import rpc as luxid
from daemons.rapid.luxi import ENTRY, rows
from daemons.rapid.openapi.document import openapi
from protocol.rapid.luxi import LOCAL, PASSED
from tests.unit.common.test_access import Anything


def test_each_method_of_luxid_passes_or_stays_with_a_reason() -> None:
    handlers = luxid.LuxidHandlers(*cast(Any, [Anything() for _ in attrs.fields(luxid.LuxidHandlers)]))
    methods = {route.method for route in luxid.routes(handlers)}

    assert {kind.METHOD for kind in (*PASSED, *LOCAL)} == methods
    assert not set(PASSED) & set(LOCAL)
    assert all(LOCAL.values())


def test_what_changes_something_needs_more_than_to_read() -> None:
    for passed in PASSED.values():
        assert passed.rights
        if passed.changes:
            assert all(ROLE_OF[right] > Role.READ for right in passed.rights), passed


def test_every_row_is_for_tokens_and_the_document_has_one_entry() -> None:
    table = rows()

    assert all(row.is_for_tokens and row.rights for row in table)
    assert len({row.path for row in table}) == len(PASSED) + len(LOCAL)
    paths = cast(dict[str, Any], openapi([*table, ENTRY], "1.2")["paths"])
    assert list(paths) == ["/luxi/{method}"]
    assert paths["/luxi/{method}"]["post"]["security"] == [{"bearer": []}]
    assert set(ENTRY.rights) == set(Right)
