"""Three nodes whose daemons are killed and whose network is cut, while queue and configuration change."""
