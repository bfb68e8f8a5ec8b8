"""The queue on disk: every file of luxid's, and how it is read and written."""
