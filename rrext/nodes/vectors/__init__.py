"""Vector stores: they keep chunks of documents and find them by meaning, by words, or by both."""
