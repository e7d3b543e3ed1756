"""The SDK for programs without an event loop: `rrext.blocking.Client` has the names of `rrext.Client`, without `await`."""

from __future__ import annotations

from rrext.client.blocking import Client, Database, Knowledge, Pipe, StoredFiles, Transaction, Vectors

__all__ = ["Client", "Database", "Knowledge", "Pipe", "StoredFiles", "Transaction", "Vectors"]
