"""The form for a name and a password (issue 12, "Wrong password")."""

from typing import Any, cast

import pytest
from starlette.requests import Request as HttpRequest

from common.webaccess.rights import NOBODY, Principal
from daemons.rapid.calls import Asked
from daemons.rapid.page.login import Login
from daemons.rapid.refusals import RequestRefused


@pytest.mark.trio
async def test_the_attempts_of_an_address_count_together_over_all_its_connections() -> None:
    addresses: list[str] = []

    async def check(name: str, password: str, address: str) -> Principal | None:
        addresses.append(address)
        raise RequestRefused(429, "that is enough")

    login = Login(cast(Any, None), check)
    for port in (40_001, 40_002):
        http = HttpRequest({"type": "http", "headers": [], "client": ("192.0.2.1", port)})
        with pytest.raises(RequestRefused):
            await login.log_in(Asked(http, NOBODY, cast(Any, None)), {"name": ["ada"], "password": ["guess"]})

    assert addresses == ["192.0.2.1", "192.0.2.1"]
