"""The Cypher of Neo4j, and of other servers that speak Bolt."""

from __future__ import annotations

from typing import Final

from rrext.nodes.databases.word_lists import words
from rrext.nodes.graph.dialect import CypherDialect

NEO4J: Final = CypherDialect(
    name="neo4j",
    procedures=words("""
    db.labels db.relationshiptypes db.propertykeys db.schema.visualization db.schema.nodetypeproperties
    db.schema.reltypeproperties db.info db.ping db.index.fulltext.querynodes
    db.index.fulltext.queryrelationships db.index.vector.querynodes db.index.vector.queryrelationships
    db.indexes db.indexdetails db.constraints db.awaitindex db.awaitindexes db.stats.status dbms.procedures dbms.functions
    dbms.showcurrentuser dbms.components apoc.meta.schema apoc.meta.data apoc.meta.graph apoc.meta.stats
    apoc.meta.nodetypeproperties
    apoc.meta.reltypeproperties
"""),
    options=True,
    shows=True,
)
