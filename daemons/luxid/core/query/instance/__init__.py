"""Fields of instances: their parameters, disks and interfaces, and what nodes tell of them."""
