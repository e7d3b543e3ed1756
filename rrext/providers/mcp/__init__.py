"""The provider `mcp`: tools of external MCP servers, as child processes or over Streamable HTTP.

`provider` is the door; it keeps one link to the server and makes it anew. `link` speaks the protocol through the official SDK,
`stdio` and `http` carry its messages, `listing` and `results` read what servers send, `failures` words what went wrong.
"""
