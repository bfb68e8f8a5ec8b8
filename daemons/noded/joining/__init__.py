"""The door of the master: `gate` opens it, `joinapplication` speaks HTTP, `admission` lets machines in."""
