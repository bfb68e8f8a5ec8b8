"""The pages of the manual, and how they are written."""
