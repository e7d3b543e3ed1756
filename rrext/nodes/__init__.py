"""Built-in nodes. This module holds only their names: each one is imported when a pipeline first uses it."""

from __future__ import annotations

__all__ = ["ALIASES", "BUILTIN"]

BUILTIN: dict[str, str] = {
    "webhook": "rrext.nodes.sources:WebhookNode",
    "chat": "rrext.nodes.sources:ChatNode",
    "dropper": "rrext.nodes.sources:DropperNode",
    "tools": "rrext.nodes.sources:ToolsNode",
    "response": "rrext.nodes.response:ResponseNode",
    "response_text": "rrext.nodes.response:ResponseTextNode",
    "response_table": "rrext.nodes.response:ResponseTableNode",
    "response_documents": "rrext.nodes.response:ResponseDocumentsNode",
    "response_questions": "rrext.nodes.response:ResponseQuestionsNode",
    "response_answers": "rrext.nodes.response:ResponseAnswersNode",
    "response_image": "rrext.nodes.response:ResponseImageNode",
    "response_audio": "rrext.nodes.response:ResponseAudioNode",
    "response_video": "rrext.nodes.response:ResponseVideoNode",
    "prompt": "rrext.nodes.prompt:PromptNode",
    "question": "rrext.nodes.prompt:QuestionNode",
    "memory_internal": "rrext.nodes.memory:MemoryNode",
    "tool_filesystem": "rrext.nodes.filesystem:FilesystemNode",
    "tool_python": "rrext.nodes.python:PythonNode",
    "graph_ladybug": "rrext.nodes.graph.ladybug:LadybugNode",
    "graph_neo4j": "rrext.nodes.graph.neo4j:Neo4jNode",
    "llm_scripted": "rrext.nodes.scripted:ScriptedNode",
    "db_sqlite": "rrext.nodes.sql.sqlite:SqliteNode",
    "db_duckdb": "rrext.nodes.sql.duckdb:DuckdbNode",
    "db_postgres": "rrext.nodes.sql.postgres:PostgresNode",
    "db_mysql": "rrext.nodes.sql.mysql:MysqlNode",
    "parse": "rrext.nodes.documents.parse:ParseNode",
    "split": "rrext.nodes.documents.split:SplitNode",
    "llm_openai_api": "rrext.nodes.llm.openai:OpenAIApiNode",
    "llm_openai": "rrext.nodes.llm.openai:OpenAINode",
    "llm_ollama": "rrext.nodes.llm.openai:OllamaNode",
    "embedding_hashing": "rrext.nodes.embeddings.node:HashingNode",
    "embedding_openai": "rrext.nodes.embeddings.openai:OpenAIEmbeddingNode",
    "embedding_local": "rrext.nodes.embeddings.local:LocalEmbeddingNode",
    "store_qdrant_edge": "rrext.nodes.vectors.edge.node:QdrantEdgeNode",
    "store_pgvector": "rrext.nodes.vectors.pgvector:PgVectorNode",
}
"""Provider name → where its class is, as `module:Class`."""

ALIASES: dict[str, str] = {
    "db_mariadb": "db_mysql",
    "db_neo4j": "graph_neo4j",
    "preprocessor_langchain": "split",
    "preprocessor_code": "split",
    "embedding_transformer": "embedding_local",
    "store_embedded": "store_qdrant_edge",
    "postgres": "store_pgvector",
    "store_postgres": "store_pgvector",
    "pgvector": "store_pgvector",
}
"""Older provider name → the name in `BUILTIN` that it means."""
