"""The program `gnt-node`: one module for each verb."""
