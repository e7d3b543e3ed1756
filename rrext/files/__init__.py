"""Files below one directory, which no path leaves, and the files that users keep on a server."""
