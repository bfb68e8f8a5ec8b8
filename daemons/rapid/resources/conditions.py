"""Changes under a condition: `If-Match` and `If-None-Match`, and the tags that they name.

The daemon that makes a change compares the tag, in the same step. A merge patch of what that daemon only replaces whole
is made here of the present content, and sent on the condition that this is still the present one.

The tag of a thing is made from what can be changed of it, not from counters that are shown beside; so no reply is left
out because its client has the tag.

Source: RFC 9110, section 13.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from common.conditions import Condition, check_condition
from common.errors import Conflict, PreconditionFailed, RemoteError
from daemons.rapid.calls import Asked, CallParameter, Given
from daemons.rapid.refusals import RequestRefused

IF_MATCH: Final = CallParameter(
    "If-Match",
    'Tags with commas between, such as `"5d41402a"`: it is changed only if it still has one of them, which the `ETag` '
    "of a reply, or `tag` in a list, told. `*`: only if it is there. Else the reply is 412.",
    place="header",
)
IF_NONE_MATCH: Final = CallParameter(
    "If-None-Match", "`*`: it is only added, and 412 if it is there. Tags: only if it has none of them.", place="header"
)
CONDITIONS: Final = (IF_MATCH, IF_NONE_MATCH)
_ANY: Final = "*"
# one element of a list, which may be empty; a tag may have commas in it
_ELEMENT: Final = re.compile(r'[ \t]*+(?:(W/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*+)?(?:,|\Z)')
# times that a merge patch is made anew, as others have changed the thing meanwhile
_TURNS: Final = 20


class Tagged(Protocol):
    """What has a tag."""

    @property
    def tag(self) -> str: ...


T = TypeVar("T", bound=Tagged)
R = TypeVar("R")


def condition_of(asked: Asked) -> Condition | None:
    """The condition of a request; None: it has none. Raises: RequestRefused: a header is malformed."""
    headers = asked.http.headers
    return read_condition(headers.getlist(IF_MATCH.name), headers.getlist(IF_NONE_MATCH.name))


def read_condition(if_match: Sequence[str], if_none_match: Sequence[str]) -> Condition | None:
    """The condition that headers state; None: there are none.

    Weak tags never match in `If-Match`, and count as strong ones in `If-None-Match`.

    Args: the values of the headers of each name.
    Raises: RequestRefused: 400, a header is malformed.
    """
    wanted, unwanted = _read(IF_MATCH, if_match), _read(IF_NONE_MATCH, if_none_match)
    if wanted is None and unwanted is None:
        return None
    tags = None if wanted is None or wanted.is_any else wanted.strong
    is_there = True if wanted is not None and wanted.is_any else None
    if unwanted is not None and unwanted.is_any:
        # both at once hold of nothing
        return Condition(tags=() if is_there else tags, is_there=False)
    return Condition(tags, is_there, () if unwanted is None else (*unwanted.strong, *unwanted.weak))


@attrs.frozen
class _Tags:
    """The value of a header."""

    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    # whether it is `*`
    is_any: bool = False


def _read(parameter: CallParameter, values: Sequence[str]) -> _Tags | None:
    """None: there is no such header. Raises: RequestRefused: it is malformed."""
    if not values:
        return None
    text = ",".join(values).strip(" \t")
    if text == _ANY:
        return _Tags(is_any=True)
    elements = list(_elements(parameter, text))
    if not elements:
        raise _malformed(parameter, text)
    strong, weak = (tuple(tag for is_weak, tag in elements if is_weak is wanted) for wanted in (False, True))
    return _Tags(strong, weak)


def _elements(parameter: CallParameter, text: str) -> Iterator[tuple[bool, str]]:
    """Each tag, and whether it is weak. Raises: as `_read`. Cost: linear."""
    place = 0
    while place < len(text):
        element = _ELEMENT.match(text, place)
        if element is None:
            raise _malformed(parameter, text)
        if element[2] is not None:
            yield element[1] is not None, element[2]
        place = element.end()


def _malformed(parameter: CallParameter, text: str) -> RequestRefused:
    return RequestRefused(
        400,
        f'header {parameter.name} must be * or tags in double quotes with commas between, as in "5d41402a", got '
        f"{text!r:.80}",
    )


def tagged(thing: Tagged, status: int = 200, headers: Mapping[str, str] | None = None) -> Given:
    """The result of a handler that is one thing; its tag, if it has one, is the `ETag` of the reply."""
    etag = {"ETag": f'"{thing.tag}"'} if thing.tag else {}
    return Given(thing, status, {**(headers or {}), **etag})


async def merge(
    asked: Asked,
    thing: str,
    read: Callable[[], Awaitable[T]],
    replace: Callable[[T, Condition], Awaitable[R]],
) -> R:
    """Make a merge patch by replacing what is there now, on the condition that nobody does so meanwhile.

    Args:
        thing: for people: "resource 'licences'".
        read: what is there now.
        replace: makes the change of what was read, if the condition holds.
    Raises: RequestRefused: the condition of the request is malformed. PreconditionFailed: it does not hold. Conflict:
        others change it all the time. Else what `read` and `replace` raise.
    """
    condition = condition_of(asked)
    for _ in range(_TURNS):
        before = await read()
        check_condition(condition, thing, before.tag)
        try:
            return await replace(before, Condition(tags=(before.tag,)))
        except RemoteError as error:
            if error.code != PreconditionFailed.code:
                raise
    raise Conflict(f"{thing} is changed by others all the time; nothing was changed, try again")
