"""What came of a fleet: who failed, with the last lines, and how many did what.

Source: DESIGN section 13, "Fleet".
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cli.fleet.fleetjobs import Fleet, FleetJob
from cli.screen import remark, say
from common.printable import printable
from common.words.ends import end_words
from common.words.outcome import Outcome, result_text
from common.words.times import duration

# what the text of a failed command ends with
_LAST_OUTPUT: Final = "; last output: "
# elements that a line names
_MOST_NAMED: Final = 12


def tell_summary(fleet: Fleet, outcomes: Sequence[Outcome]) -> None:
    """Tell on standard error what went wrong, and then on standard output the counts."""
    for outcome in outcomes:
        if outcome.status == "error":
            for line in _failure(fleet.jobs[outcome.job_id], outcome):
                remark(line)
    for why, elements in _canceled(fleet, outcomes).items():
        remark(f"{_listed(elements)}: {why}")
    say(_counts(fleet, outcomes))


def end_text(outcome: Outcome) -> str:
    """`3.2s  12:03 up 3 days`: how long it ran, and its last line, or why it failed."""
    took = "" if outcome.runtime_s is None else duration(outcome.runtime_s)
    words = _last_of_result(outcome) if outcome.is_success else _why(outcome)
    return printable(f"{took:>6}  {words}").rstrip()


def _last_of_result(outcome: Outcome) -> str:
    for result in reversed(outcome.results):
        tail = result.get("tail") if isinstance(result, Mapping) else None
        lines = [line for line in tail if str(line).strip()] if isinstance(tail, list) else []
        if lines:
            return str(lines[-1]).strip()
    return ""


def _why(outcome: Outcome) -> str:
    if outcome.status == "error":
        return result_text(_failed_result(outcome))
    return end_words(outcome, lambda _: None) or ""


def _failed_result(outcome: Outcome) -> object:
    failed = (result for result, state in zip(outcome.results, outcome.statuses, strict=True) if state == "error")
    return next(failed, None)


def _failure(job: FleetJob, outcome: Outcome) -> Iterator[str]:
    lines = job.output.lines()
    text = result_text(_failed_result(outcome))
    # its last lines follow
    text = text.partition(_LAST_OUTPUT)[0] if lines else text
    after = "" if outcome.runtime_s is None else f" after {duration(outcome.runtime_s)}"
    yield f"error: {job.element} (job {job.job_id}) failed{after}: {printable(text)}"
    yield from (f"    {line}" for line in lines)


def _canceled(fleet: Fleet, outcomes: Sequence[Outcome]) -> Mapping[str, list[str]]:
    """Why jobs were canceled -> their nodes or values."""
    elements: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status not in ("success", "error"):
            elements[printable(_why(outcome)) or outcome.status].append(fleet.jobs[outcome.job_id].element)
    return elements


def _counts(fleet: Fleet, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.status for outcome in outcomes)
    words = (("error", "failed"), ("canceled", "canceled"))
    others = [f"{counts[status]} {word}" for status, word in words if counts[status]]
    lasted = f" in {duration(fleet.lasted_s)}" if fleet.lasted_s else ""
    return ", ".join([f"{counts['success']} of {len(outcomes)} {fleet.noun} succeeded{lasted}", *others])


def _listed(elements: Sequence[str]) -> str:
    left = len(elements) - _MOST_NAMED
    return f"{', '.join(elements[:_MOST_NAMED])}{f' and {left} more' if left > 0 else ''}"
