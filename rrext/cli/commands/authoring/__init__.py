"""Commands of authors: to begin, check, draw and test pipelines and nodes."""
