"""The catalog of nodes: their classes, the origins of these, their settings and descriptions."""
