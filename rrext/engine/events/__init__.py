"""Events of an engine, as plain data for subscribers."""
