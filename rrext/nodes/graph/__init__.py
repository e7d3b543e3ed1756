"""Graph databases with Cypher: a server over Bolt, and an embedded database."""
