"""Objects on their way through open pipes: lanes, links, and the order of what happens to a pipe."""
