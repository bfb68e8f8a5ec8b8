"""Ground floor: values and rules that several daemons share."""
