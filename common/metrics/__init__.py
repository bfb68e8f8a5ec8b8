"""Plain numbers that daemons keep of their work, and the values in which they report them."""
