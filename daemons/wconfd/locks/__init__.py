"""The locks in memory and on disk, the news of them, and the ends of their owners."""
