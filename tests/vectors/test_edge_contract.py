"""The embedded store keeps to what every vector store keeps to."""

from __future__ import annotations

from vector_contract import StoreContract


class TestEdgeContract(StoreContract):
    """`new_store` comes from conftest.py."""
