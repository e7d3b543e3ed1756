"""A vector store in PostgreSQL with pgvector. What is in here imports the driver: it is imported when a store is set up."""
