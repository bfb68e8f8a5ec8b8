"""Who may run commands as whom."""
