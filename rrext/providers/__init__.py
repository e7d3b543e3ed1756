"""Providers of tools from outside: servers of the Model Context Protocol, HTTP APIs, Composio."""
