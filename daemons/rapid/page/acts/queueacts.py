"""Pause jobs by a filter rule, delete rules, drain and open the queue."""

import time
from collections.abc import Sequence

import attrs
from starlette.responses import Response

from common.errors import NotFound
from common.ids import JobId
from common.words.filters.rulefilter import rule_predicates
from daemons.rapid.calls import Asked
from daemons.rapid.page.acts.jobacts import LISTED
from daemons.rapid.page.logins import login_of
from daemons.rapid.page.pages import Pages
from daemons.rapid.page.reading.jobfacts import jobs_by_id
from daemons.rapid.page.reading.rulefacts import filter_rules
from daemons.rapid.page.views.boards import Confirmation, Done, DoneLine
from daemons.rapid.page.views.jobline import ROW_FIELDS, JobLine, job_lines
from daemons.rapid.page.views.links import Piece, rule_href
from daemons.rapid.page.visits.login import form_of
from daemons.rapid.page.visits.visitors import Form, first
from protocol.luxi.filters import DeleteFilter, ReplaceFilter, TryFilterRule
from protocol.luxi.queue import SetDrainFlag

_BACK = "/ui/filters"


@attrs.frozen
class QueueActs:
    _pages: Pages

    async def pause(self, asked: Asked) -> Response:
        """Make jobs wait. Raises: Refused: a forged form. InvalidRequest: the filter cannot be read."""
        form = self._checked(asked)
        where, reason = first(form, "where").strip(), first(form, "reason").strip()
        predicates = tuple(rule_predicates(where)) if where else ()
        if first(form, "sure") != "yes":
            hit = await asked.daemons.luxid(TryFilterRule(None, 0, predicates, "PAUSE"))
            return await self._ask_pause(asked, where, reason, hit)
        trail = (("gnt:user", reason, time.time_ns()),) if reason else ()
        uuid = await asked.daemons.luxid(ReplaceFilter(None, 0, predicates, "PAUSE", trail))
        lines = (Piece("rule "), Piece(uuid, rule_href(uuid)), Piece(" makes such jobs wait until it is deleted"))
        return await self._done(asked, "Paused", lines)

    async def _ask_pause(self, asked: Asked, where: str, reason: str, hit: Sequence[JobId]) -> Response:
        which = f"jobs with {where}" if where else "all jobs"
        now = f"{len(hit)} of the jobs that wait now would wait on; later ones, too." if hit else ""
        view = Confirmation(
            f"Pause {which}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            "/ui/filters/pause",
            (("where", where), ("reason", reason)),
            "pause them",
            _BACK,
            told=now,
            none="None of the jobs that wait now is like that; later ones would be.",
            is_grave=not where,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    async def delete(self, asked: Asked) -> Response:
        """Delete a rule. Raises: Refused: a forged form. NotFound: there is no such rule."""
        form = self._checked(asked)
        uuid = first(form, "uuid")
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(DeleteFilter(uuid))
            return await self._done(asked, "Deleted", (Piece(f"rule {uuid} is no more"),))
        rule = next((rule for rule in await filter_rules(asked.daemons) if rule.uuid == uuid), None)
        if rule is None:
            raise NotFound(f"there is no filter rule {uuid!r:.60}")
        hit = await asked.daemons.luxid(TryFilterRule(uuid, rule.priority, rule.predicates, rule.action))
        view = Confirmation(
            f"Delete rule {uuid}?",
            await _lines(asked, hit),
            max(0, len(hit) - LISTED),
            "/ui/filters/delete",
            (("uuid", uuid),),
            "delete the rule",
            _BACK,
            told=f"It applies to {len(hit)} of the jobs that wait now." if hit else "",
            none="It applies to none of the jobs that wait now.",
            is_grave=True,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    async def drain(self, asked: Asked) -> Response:
        """Drain or open the queue. Raises: Refused: a forged form."""
        form = self._checked(asked)
        is_draining = first(form, "drain") == "yes"
        if first(form, "sure") == "yes":
            await asked.daemons.luxid(SetDrainFlag(is_draining))
            told = "the queue takes no more jobs" if is_draining else "the queue takes jobs"
            return await self._done(asked, "Drained" if is_draining else "Opened", (Piece(told),))
        view = Confirmation(
            "Drain the queue?" if is_draining else "Open the queue?",
            None,
            0,
            "/ui/queue",
            (("drain", "yes" if is_draining else "no"),),
            "drain" if is_draining else "open",
            _BACK,
            told="It would take no more jobs; those that it has go on." if is_draining else "It would take jobs again.",
            is_grave=is_draining,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

    def _checked(self, asked: Asked) -> Form:
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        return form

    async def _done(self, asked: Asked, title: str, pieces: tuple[Piece, ...]) -> Response:
        return await self._pages.page(asked, "done", title, Done(title, (DoneLine(pieces),), _BACK))


async def _lines(asked: Asked, job_ids: Sequence[JobId]) -> tuple[JobLine, ...]:
    rows = await jobs_by_id(asked.daemons, job_ids[:LISTED], ROW_FIELDS)
    return job_lines(rows, {}, {}, time.time(), login_of)
