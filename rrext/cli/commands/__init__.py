"""The commands of the command line: a module for each, or for two that belong together."""
