"""A vector store on a server of Qdrant. These modules import its client; a node imports them at its setup."""
