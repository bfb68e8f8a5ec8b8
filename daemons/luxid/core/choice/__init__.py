"""Which of the ready jobs runs next."""
