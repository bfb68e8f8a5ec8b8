"""The program `gnt-group`: one module for each verb."""
