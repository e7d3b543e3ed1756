"""Nodes for pictures: thumbnails, and the text that is in them. Processes of their own read the pictures."""
