"""Tickets of dry runs (DESIGN section 15)."""

from daemons.rapid.resources.jobchanges import ticket_for


def test_a_ticket_stands_for_a_verb_and_a_set_of_jobs() -> None:
    assert ticket_for("cancel", [1, 12]) == ticket_for("cancel", [12, 1])
    others = [ticket_for("cancel", [11, 2]), ticket_for("cancel", [1]), ticket_for("archive", [1, 12])]
    assert ticket_for("cancel", [1, 12]) not in others
