"""Checks of `deploy/monitoring` by Prometheus's own tool; `make test-monitoring` runs them."""
