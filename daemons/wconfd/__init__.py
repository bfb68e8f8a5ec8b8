"""wconfd, the lock and configuration daemon."""
