"""Our programs against the recorded ends of a real Ganeti's: `tests.reliability.ganeti.verbs` records them."""
