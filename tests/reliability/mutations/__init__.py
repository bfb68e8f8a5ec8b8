"""Each safeguard is taken out once, and the tests must notice."""
