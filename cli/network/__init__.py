"""The program `gnt-network`: one module for each verb."""
