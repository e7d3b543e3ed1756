"""Built-in nodes. This module holds only their names: each one is imported when a pipeline first uses it."""

from __future__ import annotations

__all__ = ["ALIASES", "BUILTIN"]

BUILTIN: dict[str, str] = {
    "webhook": "rrext.nodes.basic.sources:WebhookNode",
    "chat": "rrext.nodes.basic.sources:ChatNode",
    "dropper": "rrext.nodes.basic.sources:DropperNode",
    "tools": "rrext.nodes.basic.sources:ToolsNode",
    "response": "rrext.nodes.basic.response:ResponseNode",
    "response_text": "rrext.nodes.basic.response:ResponseTextNode",
    "response_table": "rrext.nodes.basic.response:ResponseTableNode",
    "response_documents": "rrext.nodes.basic.response:ResponseDocumentsNode",
    "response_questions": "rrext.nodes.basic.response:ResponseQuestionsNode",
    "response_answers": "rrext.nodes.basic.response:ResponseAnswersNode",
    "response_image": "rrext.nodes.basic.response:ResponseImageNode",
    "response_audio": "rrext.nodes.basic.response:ResponseAudioNode",
    "response_video": "rrext.nodes.basic.response:ResponseVideoNode",
    "prompt": "rrext.nodes.basic.prompt:PromptNode",
    "question": "rrext.nodes.basic.prompt:QuestionNode",
    "memory_persistent": "rrext.nodes.basic.persistent_memory:PersistentMemoryNode",
    "memory_internal": "rrext.nodes.basic.memory:MemoryNode",
    "tool_filesystem": "rrext.nodes.files.filesystem:FilesystemNode",
    "tool_http_request": "rrext.nodes.basic.http_request:HttpRequestNode",
    "tool_mcp_client": "rrext.nodes.basic.mcp_client:McpClientNode",
    "tool_python": "rrext.nodes.sandbox.node:PythonNode",
    "graph_ladybug": "rrext.nodes.graph.ladybug:LadybugNode",
    "graph_neo4j": "rrext.nodes.graph.neo4j:Neo4jNode",
    "llm_scripted": "rrext.nodes.llm.scripted:ScriptedNode",
    "db_sqlite": "rrext.nodes.sql.sqlite:SqliteNode",
    "db_duckdb": "rrext.nodes.sql.duckdb.node:DuckdbNode",
    "db_postgres": "rrext.nodes.sql.postgres.node:PostgresNode",
    "db_mysql": "rrext.nodes.sql.mysql:MysqlNode",
    "parse": "rrext.nodes.documents.parse:ParseNode",
    "split": "rrext.nodes.documents.split:SplitNode",
    "llm_openai_api": "rrext.nodes.llm.openai:OpenAIApiNode",
    "llm_openai": "rrext.nodes.llm.openai:OpenAINode",
    "llm_anthropic": "rrext.nodes.llm.anthropic:AnthropicNode",
    "llm_gemini": "rrext.nodes.llm.gemini:GeminiNode",
    "llm_ollama": "rrext.nodes.llm.openai:OllamaNode",
    "embedding_hashing": "rrext.nodes.embeddings.node:HashingNode",
    "embedding_openai": "rrext.nodes.embeddings.openai:OpenAIEmbeddingNode",
    "embedding_local": "rrext.nodes.embeddings.transformer:LocalEmbeddingNode",
    "store_qdrant_edge": "rrext.nodes.vectors.edge.node:QdrantEdgeNode",
    "store_pgvector": "rrext.nodes.vectors.postgres.node:PgVectorNode",
}
"""Provider name → where its class is, as `module:Class`."""

ALIASES: dict[str, str] = {
    "db_mariadb": "db_mysql",
    "mcp_client": "tool_mcp_client",
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
