"""The daemons; each in its folder, none imports another."""
