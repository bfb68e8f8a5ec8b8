"""Masters that die, hang and are cut off, with real keepers: `make test-lease`."""
