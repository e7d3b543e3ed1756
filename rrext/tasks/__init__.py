"""Tasks in worker processes: an engine that routes calls to them, and the process of a task."""
