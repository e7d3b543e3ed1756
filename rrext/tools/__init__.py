"""Tools: functions that callers invoke by name, with schemas, context, availability and strict results."""
