"""A pipeline's text: JSON with comments, as a tree whose every value knows its place, and problems at such places."""
