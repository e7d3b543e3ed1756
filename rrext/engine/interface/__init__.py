"""The `Engine` interface: operations of plain data in, one answer each out."""
