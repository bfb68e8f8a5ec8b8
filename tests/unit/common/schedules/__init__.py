"""The words and instants of schedules."""
