"""The history of ended jobs, for the verbs that show it or end it."""
