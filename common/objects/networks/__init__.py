"""Networks, their addresses, and what instances take of them."""
