"""The dialects of Cypher by name, for tests that run over all of them."""

from __future__ import annotations

from rrext.nodes.graph.dialect import CypherDialect
from rrext.nodes.graph.ladybug_rules import LADYBUG
from rrext.nodes.graph.neo4j import NEO4J

DIALECTS: dict[str, CypherDialect] = {dialect.name: dialect for dialect in (NEO4J, LADYBUG)}
