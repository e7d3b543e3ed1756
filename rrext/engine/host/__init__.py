"""Services for an engine's calls: loop, clock, threads, fair limits, deadlines."""
