"""What a pipeline file says: its text, its meaning or all that is wrong with it, and the nodes that it may name."""
