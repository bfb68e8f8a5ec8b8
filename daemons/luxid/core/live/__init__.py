"""What luxid asks node daemons for queries, and what their replies mean."""
