"""Vector stores: they keep chunks of documents and find them by vectors, by words, or by both."""
