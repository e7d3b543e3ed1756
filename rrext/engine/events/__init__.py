"""What happens in an engine, as plain data for whoever subscribes."""
