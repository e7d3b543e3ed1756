"""Nodes of RocketRide that rrext does not have: their class types, their lanes, and our nodes for the same purpose.

The table serves messages and the check of edges. Its nodes are never offered as a fix, nor are ours for them: another vendor is
another node. It is read when a pipeline first names an unknown provider.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

_ROWS: Final = """
llm | questions > answers | llm_openai_api llm_openai llm_ollama | llm_baidu_qianfan llm_bedrock llm_deepseek
llm | questions > answers | llm_openai_api llm_openai llm_ollama | llm_gmi_cloud llm_kimi llm_minimax llm_mistral
llm | questions > answers | llm_openai_api llm_openai llm_ollama | llm_nebius llm_perplexity llm_qwen llm_xai
agent tool | questions > answers | agent | agent_llamaindex
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | chroma milvus
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | astra_db atlas mongodb+srv
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | pinecone weaviate
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | store_chroma
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | store_milvus store_pinecone
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | store_astra_db store_atlas
store tool | documents questions > documents answers questions | store_qdrant_edge store_pgvector | store_weaviate
store tool | documents questions text > text documents answers questions | | elasticsearch opensearch
store tool | documents questions text > text documents answers questions | | store_elasticsearch store_opensearch
database tool | answers questions > table text answers | db_postgres | db_supabase
database tool | answers questions > table text answers | db_duckdb | db_clickhouse
database tool | questions > table text answers | | db_arango
database tool | questions > table text answers | graph_neo4j graph_ladybug | graph_falkordb
database tool | > | | aparavi_aql
data | tags > text table | parse | llamaparse reducto landingai_ade landing_ai_parse
data | text > answers documents | | landing_ai_extract
data | tags > tags | | hash
infrastructure | > | | remote
preprocessor | text table > documents | split | preprocessor_llm
embedding | documents image > documents | | embedding_image
embedding | video > documents | | embedding_video
text | text documents > text documents | | anomaly_detector
text | text table > answers documents | | extract_data
guard | questions answers documents > questions answers documents | | guardrails
rerank | questions > documents answers | | rerank_cohere
image | image > text | | accessibility_describe
image | image > text image | | background_removal depth_estimate detect detect_segment pose_estimation
image | image > image | | image_cleanup
image | image documents > text documents | | image_vision_gemini image_vision_mistral image_vision_ollama image_vision_openai
image | image documents > text documents | | llm_vision_gemini llm_vision_mistral llm_vision_ollama llm_vision_openai
audio | audio video > text | | audio_transcribe
audio | text questions answers documents > audio | audio_tts | tts_elevenlabs tts_openai
video | video > image table documents | | frame_grabber
video | video > text | | twelvelabs
video | image > video | | video_composer
source | > text image audio video tags | | telegram
tool | > | | tool_apify tool_bland_ai tool_chartjs tool_deepl tool_exa_search tool_firecrawl tool_github
tool | > | | tool_mem0 tool_oura tool_pipedrive tool_slack tool_tavily tool_v0 tool_xtrace_memory
tool | > | graph_neo4j graph_ladybug | tool_falkordb
tool | > | tool_python | tool_daytona
tool | > | tool_mcp_client | tool_butterbase
tool | > text questions documents table answers | | tool_pipe
"""
"""Class types, lanes in `>` lanes out, nodes here for the same purpose, and the providers that are so."""


class ForeignNode(msgspec.Struct, frozen=True):
    """A node of RocketRide that rrext does not have. `accepted` and `offered` are its lanes in and out."""

    provider: str
    class_types: tuple[str, ...]
    accepted: tuple[str, ...]
    offered: tuple[str, ...]
    ours: tuple[str, ...]
    """Our nodes for the same purpose; they have other settings and other data."""

    @property
    def message(self) -> str:
        """Say what the node is, and what rrext has for the same purpose."""
        text = f'"{self.provider}" ({", ".join(self.class_types)}) is a node of RocketRide and not part of rrext.'
        if self.ours:
            text += f" For the same purpose rrext has {', '.join(self.ours)}, with other settings."
        return text


def foreign_node(provider: str) -> ForeignNode | None:
    """The node of RocketRide with a provider name, if rrext does not have it."""
    return foreign_nodes().get(provider)


@cache
def foreign_nodes() -> dict[str, ForeignNode]:
    """Every row of the table, by provider name."""
    found: dict[str, ForeignNode] = {}
    for row in _ROWS.strip().splitlines():
        types, lanes, ours, providers = row.split("|")
        accepted, offered = lanes.split(">")
        for name in providers.split():
            found[name] = ForeignNode(
                name, tuple(types.split()), tuple(accepted.split()), tuple(offered.split()), tuple(ours.split())
            )
    return found
