"""Changes that count only while their writer is the master: commits under the fence, and how they are read again."""
