"""mond: what a node measures of itself, and whether it is well, over plain HTTP; on all nodes."""
