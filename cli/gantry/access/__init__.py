"""Users and tokens of the HTTP interface, as verbs."""
