"""Words for resources that a submission wants and cannot get as things are: a mistyped name waits for ever.

Source: DESIGN section 16.
"""

from collections.abc import Iterable, Iterator, Sequence

from cli.luxid import Luxid
from cli.screen import remark
from common.errors import GantryError
from common.queue.terms import Use, terms_of_trail, terms_text
from common.words.unitcounts import units_text
from protocol.luxi.resources import ReadResourceUse, ResourceUse
from protocol.luxi.submission import OpInput

# part of the terms of a job that uses resources
_HAS_USES = '"uses"'


def tell_lacking(client: Luxid, jobs: Sequence[Sequence[OpInput]]) -> None:
    """Tell which resources nobody has set, or has set to fewer than a job wants; they are asked for only if wanted.

    Raises nothing: the jobs are submitted, and their ids are not yet told. Who may submit need not see the resources.
    """
    if wanted := list(_uses(jobs)):
        try:
            known = client.call(ReadResourceUse())
        except (GantryError, OSError):
            return
        for line in lacking(wanted, known):
            remark(line)


def _uses(jobs: Sequence[Sequence[OpInput]]) -> Iterator[Use]:
    for job in jobs:
        trail = job[0].get("reason") if job else None
        if _HAS_USES in (terms_text(trail) or ""):
            yield from terms_of_trail(trail).uses


def lacking(wanted: Iterable[Use], known: Iterable[ResourceUse]) -> Iterator[str]:
    """A line for each resource of which there is not what is wanted most."""
    most: dict[str, int] = {}
    for use in wanted:
        most[use.key] = max(use.count, most.get(use.key, 0))
    resources = {each.resource.key: each.resource for each in known}
    for key, count in most.items():
        resource = resources.get(key)
        if resource is None:
            yield f"nobody has set '{key}', so the job waits; set it with: gantry resource set {key} TOTAL"
        elif count > resource.total:
            wants, total = (units_text(each, resource.unit) for each in (count, resource.total))
            yield f"{wants} of '{key}' are wanted, and there are only {total}: it is waited for until there are more"
