"""The jobs that have not ended, their phases, and what may become of them."""
