"""JSON Schemas, also those that somebody wrote by hand: what they say of a value, in words, and by an example."""
