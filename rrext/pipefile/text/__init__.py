"""A pipeline's text: JSON with comments, as a tree of values with their positions, and problems with positions."""
