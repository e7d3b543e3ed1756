"""What every call of an engine runs with: loop, clock, threads, places of limits, deadlines."""
