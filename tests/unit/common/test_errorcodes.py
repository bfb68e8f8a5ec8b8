"""Every code of an error is in the table that tells its cause and remedy."""

import re
from pathlib import Path

import pytest

from common.errors import ERROR_CODES, HTTP_CODES, PREREQUISITES
from daemons.rapid.refusals import STATUS_OF
from protocol.rapid.problems import CODES

CHECKOUT = Path(__file__).parents[3]
# of classes, of errors that are made, and of refusals over HTTP
_GIVEN = re.compile(r'^ {4}code(?:: [\w\[\]]+)? = "(\w+)"|\bcode="(\w+)"|^ {4}\d{3}: "(\w+)",$', re.MULTILINE)
_REASON = re.compile(r'PrerequisiteError\([^()]*(?:\([^()]*\)[^()]*)*, "(\w+)"\)')


def sources() -> list[str]:
    return [
        path.read_text() for top in ("common", "protocol", "daemons", "cli") for path in (CHECKOUT / top).rglob("*.py")
    ]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return sources()


def test_no_code_is_missing_and_none_is_made_up(texts: list[str]) -> None:
    given = {name for text in texts for found in _GIVEN.findall(text) for name in found if name}

    assert given == {*ERROR_CODES, *HTTP_CODES}
    assert set(STATUS_OF) == set(ERROR_CODES)


def test_every_reason_of_an_unmet_prerequisite_is_told(texts: list[str]) -> None:
    given = {name for text in texts for name in _REASON.findall(text)}

    assert {"wrong_input", "unknown_entity"} <= given <= set(PREREQUISITES)


def test_each_code_says_what_happened_and_what_to_do() -> None:
    for code, each in {**ERROR_CODES, **HTTP_CODES}.items():
        assert each.title[0].isupper(), code
        assert each.meaning.endswith("."), code
        assert each.remedy.endswith("."), code
        assert CODES[code] == (each.title, f"{each.meaning} {each.remedy}")
