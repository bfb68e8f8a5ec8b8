"""Changes from the page: each is shown first, with all that it hits, and then done."""
