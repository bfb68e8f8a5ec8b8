"""Users of the machine, and the want of them."""
