"""A vector store in PostgreSQL with pgvector. These modules import the driver; a node imports them at its setup."""
