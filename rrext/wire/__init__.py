"""The wire: bytes in → messages, messages in → bytes. Nothing here does I/O, waits, or knows a command."""
