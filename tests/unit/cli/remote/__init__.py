"""Commands on a cluster elsewhere: the place, and what is asked there."""
