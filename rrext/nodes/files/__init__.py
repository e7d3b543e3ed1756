"""Files below one directory: `tool_filesystem`, confinement of paths, and locks on files."""
