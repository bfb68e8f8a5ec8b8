"""The decisions of wconfd: pure, no I/O, no clock."""
