"""Which nodes there are, where their classes come from, and what they say of themselves."""
