"""Real etcds for tests, and masterships in them without keeperd."""
