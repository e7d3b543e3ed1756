"""Vector stores: chunks of documents that are found by meaning, by words, or by both."""
