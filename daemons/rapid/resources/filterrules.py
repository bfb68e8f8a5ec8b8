"""Filter rules over HTTP.

Source: filters design; luxid.md 6.
"""

import time
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import NotFound
from common.query.kinds import QueryKind
from common.queue.filters.ruleloads import RuleLoad
from common.queue.reasons import ReasonEntry
from common.wire import structure
from common.words.filters.rulefilter import rule_predicates
from daemons.rapid.calls import Asked, Daemons, Given
from protocol.luxi import filters as luxi
from protocol.luxi.queries import Query
from protocol.rapid.filters import ChainRule, Filter, FilterList, FilterLoad, FilterTrial, FilterWish

_FIELDS: Final = tuple(field.name for field in attrs.fields(ChainRule))


class FilterRules:
    """The calls about filter rules."""

    async def list_filters(self, asked: Asked) -> FilterList:
        return FilterList(await fetch_filters(asked.daemons))

    async def get_filter(self, asked: Asked) -> Filter:
        """Raises: NotFound."""
        return await _fetch(asked.daemons, _uuid(asked))

    async def add_filter(self, asked: Asked) -> Given:
        rule = await _set(asked, None)
        return Given(rule, 201, {"Location": f"/3/filters/{rule.uuid}"})

    async def replace_filter(self, asked: Asked) -> Filter:
        """Create the rule, or replace it."""
        return await _set(asked, _uuid(asked))

    async def delete_filter(self, asked: Asked) -> Response:
        """Raises: NotFound."""
        await asked.daemons.luxid(luxi.DeleteFilter(_uuid(asked)))
        return Response(status_code=204)

    async def try_filter(self, asked: Asked) -> FilterTrial:
        wish = asked.body_as(FilterWish)
        job_ids = await asked.daemons.luxid(
            luxi.TryFilterRule(None, wish.priority, predicates_of(wish), wish.action.to_wire())
        )
        return FilterTrial(len(job_ids), job_ids)


async def fetch_filters(daemons: Daemons) -> tuple[Filter, ...]:
    """The rules in the order of the chain, with what they do now."""
    found = await daemons.luxid(Query(QueryKind.FILTER, _FIELDS))
    rules = [structure(dict(zip(_FIELDS, values, strict=True)), Filter, "filter rule") for values in found.values()]
    loads = {load.uuid: _load(load) for load in (await daemons.luxid(luxi.ReadRuleLoads())).rules}
    loaded = (attrs.evolve(rule, load=loads.get(rule.uuid)) for rule in rules)
    return tuple(sorted(loaded, key=lambda rule: (rule.priority, rule.watermark, rule.uuid)))


def _load(load: RuleLoad) -> FilterLoad:
    return FilterLoad(load.rejected, load.held, load.running)


def predicates_of(wish: FilterWish) -> tuple[object, ...]:
    """All conditions of a rule. Raises: InvalidRequest: its text cannot be read."""
    return (*wish.predicates, *(rule_predicates(wish.where) if wish.where else ()))


def reason_trail(asked: Asked, reason: str) -> tuple[object, ...]:
    """Who sets the rule over HTTP, and why."""
    now_ns = time.time_ns()
    own = [ReasonEntry("gnt:user", reason, now_ns)] if reason else []
    return tuple(entry.to_wire() for entry in (*own, ReasonEntry("gnt:client:rapid", asked.caller.name, now_ns)))


async def _set(asked: Asked, uuid: str | None) -> Filter:
    """Raises: InvalidRequest: it can never match, or is malformed."""
    wish = asked.body_as(FilterWish)
    trail = reason_trail(asked, wish.reason)
    call = luxi.ReplaceFilter(uuid, wish.priority, predicates_of(wish), wish.action.to_wire(), trail)
    return await _fetch(asked.daemons, await asked.daemons.luxid(call))


async def _fetch(daemons: Daemons, uuid: str) -> Filter:
    for rule in await fetch_filters(daemons):
        if rule.uuid == uuid:
            return rule
    raise NotFound(f"there is no filter rule {uuid!r:.60}; GET /3/filters lists them")


def _uuid(asked: Asked) -> str:
    return str(asked.http.path_params["uuid"])
