"""The live jobs in memory, their events, and the changes that luxid itself makes to their files."""
