"""How often luxid asks wconfd for the configuration."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from common.errors import Unavailable
from common.objects.codec import to_json
from daemons.luxid import config
from daemons.luxid.config import ConfigCache, ConfigurationMissing
from protocol.wconfd.config import ReadConfig
from tests.support.configs import small_config

pytestmark = pytest.mark.trio


class FakeWconfd:
    """A client of wconfd that returns a small configuration."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_away = False
        self.content: Any = to_json(small_config())

    async def call(self, request: ReadConfig) -> Any:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise Unavailable("nobody is there")
        return self.content

    async def call_retrying(self, request: ReadConfig, timeout_s: float) -> Any:
        if self.is_away:
            await trio.sleep(timeout_s)
        return await self.call(request)


@pytest.fixture
def wconfd() -> FakeWconfd:
    return FakeWconfd()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.data"
    path.write_bytes(b"1")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def cache(path: Path, wconfd: FakeWconfd) -> ConfigCache:
    return ConfigCache(path, wconfd)  # type: ignore[arg-type]  # as much of a client as is needed


async def ask_many(cache: ConfigCache, count: int) -> list[Any]:
    """What each of some callers at the same time is answered."""
    answers: list[Any] = []

    async def ask() -> None:
        try:
            answers.append(await cache.current())
        except ConfigurationMissing as error:
            answers.append(error.message)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(ask)
    return answers


async def test_one_call_serves_all_while_the_file_rests(cache: ConfigCache, wconfd: FakeWconfd) -> None:
    answers = await ask_many(cache, 20)
    answers += await ask_many(cache, 20)

    assert wconfd.calls == 1
    assert all(answer is answers[0] for answer in answers)


async def test_a_changed_file_is_asked_for_once(cache: ConfigCache, wconfd: FakeWconfd, path: Path) -> None:
    before = await cache.current()
    wconfd.content = {**wconfd.content, "serial_no": 99}
    path.write_bytes(b"22")
    os.utime(path, (1_000_000_001, 1_000_000_001))

    answers = await ask_many(cache, 20)

    assert wconfd.calls == 2
    assert before.config.serial_no != 99
    assert {answer.config.serial_no for answer in answers} == {99}


async def test_a_copy_from_soon_after_a_write_is_not_trusted(
    cache: ConfigCache, wconfd: FakeWconfd, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wconfd may have answered with what was there before the write."""
    # so young that it does not come of age in the test
    monkeypatch.setattr(config, "SETTLED_NS", 3600 * 10**9)
    path.touch()
    before = await cache.current()
    assert await cache.current() is before
    wconfd.content = {**wconfd.content, "serial_no": 99}

    assert (await cache.current()).config.serial_no == 99
    assert wconfd.calls == 3


async def test_all_who_ask_while_wconfd_is_away_wait_together(
    cache: ConfigCache, wconfd: FakeWconfd, autojump_clock: Any
) -> None:
    wconfd.is_away = True

    answers = await ask_many(cache, 20)

    assert answers == ["cannot read the configuration from wconfd: nobody is there"] * 20
    assert wconfd.calls == 1
    wconfd.is_away = False
    assert (await cache.current()).config.serial_no == 1


async def test_a_change_that_cannot_be_had_is_an_error_and_no_old_answer(
    cache: ConfigCache, wconfd: FakeWconfd, path: Path, autojump_clock: Any
) -> None:
    await cache.current()
    wconfd.is_away = True
    path.write_bytes(b"22")

    with pytest.raises(ConfigurationMissing):
        await cache.current()
    # any age will do for calls that do not show it
    await cache.require()


async def test_what_is_no_configuration_is_an_error(cache: ConfigCache, wconfd: FakeWconfd) -> None:
    wconfd.content = {"version": 3}

    with pytest.raises(ConfigurationMissing, match="required key 'cluster' is missing"):
        await cache.current()
