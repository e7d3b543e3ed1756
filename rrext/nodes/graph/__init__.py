"""Graph databases that speak Cypher: a server over Bolt, and one that runs in this process."""
