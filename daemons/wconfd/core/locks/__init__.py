"""The lock table: who holds, who waits, who comes next, and its bytes on disk."""
