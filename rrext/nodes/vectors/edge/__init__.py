"""The embedded vector store: the engine of Qdrant in a process of its own, its data in a folder."""
