"""The query language: its expressions, and how they are judged."""
