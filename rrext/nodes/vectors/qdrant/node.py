"""`store_qdrant`: a vector store in a collection of a Qdrant server."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.vectors.node import VectorSettings, VectorStoreNode

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from rrext.nodes.vectors.qdrant.store import QdrantStore

COLLECTION: Final = r'^[^<>:"/\\|?*\x00-\x1f]+$'
"""What Qdrant takes as the name of a collection."""


class QdrantNode(VectorStoreNode):
    """Keeps chunks and their vectors in a collection of a Qdrant server, which any number of processes may share.

    The collection is made when something is stored first; one that another program made is refused. Nothing is connected
    before the first call. A change is stored as a whole or not at all. Words are searched by BM25, whose weights are those of
    the whole collection, also of what other users have.
    """

    provider = "store_qdrant"
    title = "Vector store (Qdrant)"
    capabilities = ("network",)
    profiles = {
        "cloud": {"mode": "cloud", "host": "", "port": 6333, "apikey": "", "collection": "ROCKETRIDE"},
        "local": {"mode": "local", "host": "localhost", "port": 6333, "collection": "ROCKETRIDE"},
    }
    default_profile = "cloud"

    class Config(VectorSettings):
        host: Annotated[str, "Name or address of the server, or its URL without the port, as https://qdrant.example."] = ""
        port: Annotated[int, msgspec.Meta(ge=1, le=65535), "Its port for HTTP."] = 6333
        apikey: Annotated[str, "Its key, if it wants one: ${ROCKETRIDE_QDRANT_KEY}."] = ""
        mode: Annotated[
            Literal["cloud", "local"], "Whether a host without a scheme is reached by HTTPS (cloud) or HTTP (local)."
        ] = "cloud"
        collection: Annotated[
            str, msgspec.Meta(pattern=COLLECTION, max_length=255), "Name of the collection, which rrext makes."
        ] = "ROCKETRIDE"
        score: Annotated[
            float,
            msgspec.Meta(ge=0, le=1),
            "Least similarity of hits, 0 (all) to 1 (equal): 0.5 are unrelated texts. Hits with words of the question stay.",
        ] = 0.0
        timeout: Annotated[float, msgspec.Meta(gt=0, le=3600), "Seconds that one request to the server may take."] = 60.0

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages("qdrant", "qdrant_client")

    @classmethod
    @contextlib.asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[QdrantStore]:
        """Make one store for all objects. The first call connects."""
        store = await ctx.in_thread(_store, config, ctx)
        try:
            yield store
        finally:
            await ctx.in_thread(store.close)


def address_of(config: Any) -> str:
    """The URL of the server. Raises `Unavailable` without a host, and for one that is more than that, as with a password."""
    host = config.host.strip().rstrip("/")
    if not host:
        raise Unavailable(
            "The Qdrant store has no host", hint='Set "host" of the node; a server of your own has the profile "local".'
        )
    scheme, found, name = host.rpartition("://")
    if found and scheme not in ("http", "https"):
        raise Unavailable(f'"{scheme}" is no scheme of a Qdrant server', hint="Give a host, or a URL with http or https.")
    scheme = scheme or ("https" if config.mode == "cloud" else "http")
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"  # an address of IPv6
    try:
        parts = urlsplit(f"//{name}")
        is_host = bool(parts.hostname) and parts.netloc == name and parts.username is None and parts.port is None
    except ValueError:
        is_host = False
    if not is_host or any(char.isspace() for char in name):
        raise Unavailable(
            '"host" of the Qdrant store is more than a host, or none',
            hint='Give a name, an address, or a URL without path and port: "port" and "apikey" are settings of their own.',
        )
    return f"{scheme}://{name}:{config.port}"


def _store(config: Any, ctx: SetupContext) -> QdrantStore:
    ctx.require_local_pipeline()
    from rrext.nodes.vectors.qdrant.store import QdrantStore

    def connect() -> QdrantClient:
        from qdrant_client import QdrantClient

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a key without TLS: the operator chose the address
            return QdrantClient(
                url=address_of(config),
                api_key=config.apikey.strip() or None,
                timeout=max(1, round(config.timeout)),
                check_compatibility=False,  # it would ask the server before the first call, and print
            )

    return QdrantStore(
        connect,
        collection=config.collection,
        shown=ctx.shown(f"{config.host}:{config.port}/{config.collection}"),
        least=2 * config.score - 1,
    )
