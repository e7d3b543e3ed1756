"""The surroundings of an engine's calls: loop, clock, threads, places of limits, deadlines."""
