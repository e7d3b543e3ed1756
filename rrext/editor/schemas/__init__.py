"""JSON Schemas, also hand-written ones: lookup by path, description in words, example values."""
