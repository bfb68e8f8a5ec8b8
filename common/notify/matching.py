"""Which rule fits which event of a job.

Source: DESIGN section 16; everyday.md section h.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

import attrs

from common.queue.jobs import Job, JobState
from common.queue.submitter import submitter
from common.queue.terms import JobTerms, terms_of
from common.settingwords.notifysettings import NotifyRule, Rules

TRY: Final = "try"
RECOVERED: Final = "recovered"
_END: Final = "end"
_ENDS: Final = {state.value for state in (JobState.SUCCESS, JobState.ERROR, JobState.CANCELED)}


@attrs.frozen
class Subject:
    """The job of an event, as rules look at it."""

    job: Job
    terms: JobTerms
    user: str

    @classmethod
    def of(cls, job: Job) -> "Subject":
        return cls(job, terms_of(job), submitter(job))


def matching_rules(rules: Rules, subject: Subject, event: str) -> list[str]:
    """The names of the rules that tell of this event. Args: event: a final state, `try` or `recovered`."""
    return [name for name, rule in rules.items() if _wants(rule, event) and fits(rule, subject)]


def wants_any(rules: Iterable[NotifyRule], event: str) -> bool:
    """Whether one of these rules tells of such events at all."""
    return any(_wants(rule, event) for rule in rules)


def fits(rule: NotifyRule, subject: Subject) -> bool:
    """Whether the rule is for this job."""
    if rule.users and subject.user not in rule.users:
        return False
    if rule.names and not any(fnmatchcase(subject.terms.name, pattern) for pattern in rule.names):
        return False
    return all(_has_label(subject.terms, label) for label in rule.labels)


def _wants(rule: NotifyRule, event: str) -> bool:
    return event in rule.on or (_END in rule.on and event in _ENDS)


def _has_label(terms: JobTerms, label: str) -> bool:
    key, equals, value = label.partition("=")
    return terms.labels.get(key) == value if equals else key in terms.labels
