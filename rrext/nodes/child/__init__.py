"""Child processes of nodes: how such a process is launched, locked in, called, supervised and ended."""
