"""The decisions of luxid: pure, no I/O, no clock."""
