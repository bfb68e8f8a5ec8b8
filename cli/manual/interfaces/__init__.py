"""Reference of interfaces for programs: calls, metrics, ports."""
