"""The embedded vector store: Qdrant Edge in a process of its own, its data in a folder."""
