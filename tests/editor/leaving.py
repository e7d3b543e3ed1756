"""A module of nodes that ends the process when it is imported, if it can."""

raise SystemExit("this module wants to leave")
