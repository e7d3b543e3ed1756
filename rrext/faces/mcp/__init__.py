"""The Model Context Protocol: the tools of pipelines, for agent hosts that spawn a server on stdio."""
