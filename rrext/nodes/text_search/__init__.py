"""Search in texts: an index of trigrams names the texts that may hold a hit, RE2 and bytes find it in windows of lines."""
