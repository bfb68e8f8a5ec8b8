"""What some candidate may lack stays in etcd, and nothing else (DESIGN section 14)."""

from daemons.wconfd.core.config.replicas import Uncopied


def test_changes_up_to_a_serial_number_are_due() -> None:
    uncopied = Uncopied()
    uncopied.add(["a", "b"], 10, 2)
    uncopied.add(["c"], 11, 3)

    assert uncopied.up_to(1) == {}
    assert uncopied.up_to(2) == {"a": 10, "b": 10}
    assert uncopied.up_to(3) == {"a": 10, "b": 10, "c": 11}


def test_an_object_that_was_changed_again_waits_for_its_last_change() -> None:
    uncopied = Uncopied()
    uncopied.add(["a", "b"], 10, 2)
    uncopied.add(["a"], 11, 3)

    assert uncopied.up_to(2) == {"b": 10}


def test_what_was_put_again_meanwhile_is_not_forgotten() -> None:
    uncopied = Uncopied()
    uncopied.add(["a", "b"], 10, 2)
    due = uncopied.up_to(2)
    uncopied.add(["a"], 11, 3)

    uncopied.forget(due)

    assert len(uncopied) == 1
    assert uncopied.up_to(3) == {"a": 11}
