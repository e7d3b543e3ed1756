"""The embedded vector store: the engine of Qdrant in this process, its data in a folder."""
