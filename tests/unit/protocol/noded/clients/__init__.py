"""Tests: protocol of node daemons, the clients."""
