"""What operators do every day over HTTP: change waiting jobs, look back, schedule, count resources."""
