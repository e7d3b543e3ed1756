"""What an editor asks about a pipeline's text: offsets in, plain data out. Nothing here knows a protocol."""
