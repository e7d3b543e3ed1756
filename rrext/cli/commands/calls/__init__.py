"""Commands that call what pipelines offer: tools, databases, chats, uploads, spaces."""
