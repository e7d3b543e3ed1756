"""Tools: functions that a caller may name, with schemas, context, availability and strict results."""
