"""Parts of clients of HTTP services that nodes and providers of tools share."""
