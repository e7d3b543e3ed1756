"""Child processes of nodes: launch, confinement, calls, supervision and end."""
