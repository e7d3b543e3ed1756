"""Pipeline files: their text, their meaning or all their problems, and the catalog of nodes that they may name."""
