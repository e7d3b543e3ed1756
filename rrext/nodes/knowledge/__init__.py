"""The catalog of documents: their whole text in a folder, for each user and each space apart."""
