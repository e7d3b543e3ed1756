"""Neo4j, and other servers that speak Bolt, as graph databases."""
