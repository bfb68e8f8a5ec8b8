"""The queue's core in virtual time: a recorded or generated load under several policies, compared."""
