"""The templates of `rrext init` and `rrext new`: the files that they write, and the commands that come next.

In names and texts `$stem` stands for the name of the pipeline without its ending; in lines `$file`, `$folder` and the others
stand for paths, as a shell needs them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Starter(NamedTuple):
    """What a template writes: names of files with their texts, the pipeline first, and the command lines that come next."""

    summary: str
    files: dict[str, str]
    lines: tuple[str, ...]


FIRST: Final = """\
// A pipeline: nodes, and the edges between them. `rrext show FILE.pipe` draws it, `rrext check` finds mistakes.
{
  "name": "first",
  "description": "Reads the files beside this one, and gives back a text that is sent.",
  "components": [
    // The source, where texts and files enter: `rrext send FILE.pipe PATH`.
    { "id": "webhook_1", "provider": "webhook", "config": {} },

    // Tools. `control` binds them to the source; "root" is the folder that they see, relative to this file.
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "." },
      "control": [{ "classType": "tool", "from": "webhook_1" }],
    },

    // The result. `input` is an edge of data: texts come from the source. `rrext nodes` lists what else there is.
    {
      "id": "reply_1",
      "provider": "response_text",
      "config": {},
      "input": [{ "lane": "text", "from": "webhook_1" }],
    },
  ],
  "source": "webhook_1",
  "project_id": "$project_id",
  "version": 1,
}
"""

KNOWLEDGE: Final = """\
// Documents of a folder, searched and read by tools, and an agent that answers from them.
// `pip install "rrext[knowledge,agent]"`; without a model all but the agent, analyze_document and questions to tables works.
{
  "name": "knowledge",
  "description": "Finds, reads and quotes documents.",
  "components": [
    // Where files enter: `rrext send --sync FILE.pipe FOLDER` sends what is new or changed, and deletes what is gone.
    { "id": "webhook_1", "provider": "webhook", "config": {} },

    // Files become text and tables, in processes without rights.
    { "id": "parse_1", "provider": "parse", "config": {}, "input": [{ "lane": "tags", "from": "webhook_1" }] },
    { "id": "split_1", "provider": "split", "config": {}, "input": [{ "lane": "text", "from": "parse_1" }] },

    // The passages, for search. Their words are compared until a model of embeddings is bound to it.
    {
      "id": "store_1",
      "provider": "store_qdrant_edge",
      "config": { "path": "$stem.kept/vectors", "shared": "space" },
      "input": [{ "lane": "documents", "from": "split_1" }],
      "control": [{ "classType": "store", "from": "knowledge_1" }],
    },

    // The whole documents, and the tools over them.
    {
      "id": "knowledge_1",
      "provider": "knowledge",
      "config": { "path": "$stem.kept/documents" },
      "input": [{ "lane": "text", "from": "parse_1" }, { "lane": "table", "from": "parse_1" }],
      "control": [{ "classType": "tool", "from": "agent_1" }],
    },

    // Questions of people: `rrext chat FILE.pipe`.
    { "id": "chat_1", "provider": "chat", "config": {} },
    {
      "id": "agent_1",
      "provider": "agent",
      "config": {
        "instructions": [
          "Search the documents before you answer, and say only what they say.",
          "Name the path of each document that the answer rests on, and quote the words.",
        ],
      },
      "input": [{ "lane": "questions", "from": "chat_1" }],
    },

    // A model on this machine, by Ollama. llm_openai, llm_anthropic, llm_gemini or llm_openai_api can stand here.
    {
      "id": "model_1",
      "provider": "llm_ollama",
      "config": { "model": "qwen3" },
      "control": [{ "classType": "llm", "from": "agent_1" }, { "classType": "llm", "from": "knowledge_1" }],
    },
    {
      "id": "answers_1",
      "provider": "response_answers",
      "config": {},
      "input": [{ "lane": "answers", "from": "agent_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

DOCUMENTS: Final = """\
// Documents become text, chunks and an index, in which tools search. `pip install "rrext[docs,vector]"`.
{
  "name": "documents",
  "description": "Reads documents and searches their passages.",
  "components": [
    // Where files enter: `rrext send --sync FILE.pipe FOLDER` sends what is new or changed, and deletes what is gone.
    { "id": "dropper_1", "provider": "dropper", "config": {} },

    // Files become text, in processes without rights.
    { "id": "parse_1", "provider": "parse", "config": {}, "input": [{ "lane": "tags", "from": "dropper_1" }] },
    { "id": "split_1", "provider": "split", "config": { "size": 1000 }, "input": [{ "lane": "text", "from": "parse_1" }] },

    // Chunks and their index, in a folder beside this file. It compares words, until a model of embeddings is bound to it.
    {
      "id": "store_1",
      "provider": "store_qdrant_edge",
      "config": { "path": "$stem.kept" },
      "input": [{ "lane": "documents", "from": "split_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

DOCUMENTS_CASES: Final = """\
// What the pipeline answers: `rrext test FILE.pipe`, or pytest. `rrext help test` has the forms of expectations.
{
  "cases": [
    {
      "name": "a document is stored",
      "lane": "tags",
      "input": { "$file": "$stem.files/library.md" },
      "expect": { "$at": { "/stored/store_1": 1 } },
    },
    {
      "name": "its passages are found",
      "tool": "search",
      "input": { "query": "When is the library open?", "top_k": 1 },
      "expect": { "$at": { "/results/0/content": { "$pattern": "nine to five" } } },
    },
  ],
}
"""

WELCOME: Final = """\
# The library

The library is open from nine to five, on Thursdays until eight.

A lost volume costs ten euros. Borrowing is free for everybody who lives here.
"""

SQL: Final = """\
// A database of SQLite, which is made on first use. `db_duckdb`, `db_postgres` and `db_mysql` have the same tools.
{
  "name": "sql",
  "description": "Answers questions about the visits of a library.",
  "components": [
    { "id": "tools_1", "provider": "tools", "config": {} },

    // Reading needs no permission; "allow_execute" lets `rrext sql --write` and the tool `execute` change the database.
    {
      "id": "db_1",
      "provider": "db_sqlite",
      "config": { "path": "$stem.db", "create": true, "allow_execute": true },
      "control": [{ "classType": "tool", "from": "tools_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

SQL_CASES: Final = """\
// What the pipeline answers: `rrext test FILE.pipe`, or pytest. `rrext help test` has the forms of expectations.
{
  "cases": [
    {
      "name": "a query answers rows",
      "tool": "query",
      "input": { "sql": "select 2 + 2 as four" },
      "expect": { "$at": { "/rows": [{ "four": 4 }] } },
    },
    { "name": "a query changes nothing", "tool": "query", "input": { "sql": "drop table visit" }, "error": "not_read_only" },
  ],
}
"""

VISITS: Final = """\
create table if not exists visit (day text primary key, people integer not null);
insert or replace into visit values ('2026-11-23', 41), ('2026-11-24', 57), ('2026-11-25', 63);
"""

CHAT: Final = """\
// A chat whose answers stand here, so that it needs no network.
{
  "name": "chat",
  "description": "Answers questions about a small library.",
  "components": [
    // Questions of people: `rrext chat FILE.pipe`.
    { "id": "chat_1", "provider": "chat", "config": {} },

    // In its place a model: "llm_ollama" with {"model": "qwen3"}, llm_openai, llm_anthropic, … (`rrext nodes` lists them).
    {
      "id": "model_1",
      "provider": "llm_scripted",
      "config": {
        "script": [
          { "match": "open", "answer": "The library is open from nine to five." },
          { "match": "lost", "answer": "A lost volume costs ten euros." },
        ],
        "default": "I only know about the library.",
      },
      "input": [{ "lane": "questions", "from": "chat_1" }],
    },
    {
      "id": "answers_1",
      "provider": "response_answers",
      "config": {},
      "input": [{ "lane": "answers", "from": "model_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

CHAT_CASES: Final = """\
// What the pipeline answers: `rrext test FILE.pipe`, or pytest. `rrext help test` has the forms of expectations.
{
  "cases": [
    {
      "name": "the hours are known",
      "lane": "questions",
      "input": "When are you open?",
      "expect": { "$at": { "/answers/0": { "$pattern": "nine to five" } } },
    },
  ],
}
"""

AGENT: Final = """\
// An agent that reads files to answer. Its model plays a script, so that it needs no network. `pip install "rrext[agent]"`.
{
  "name": "agent",
  "description": "Answers questions about the files beside this one.",
  "components": [
    { "id": "chat_1", "provider": "chat", "config": {} },
    {
      "id": "agent_1",
      "provider": "agent",
      "config": {
        "instructions": ["Look at the files before you answer, and say which one the answer is from."],
        "max_waves": 10,
      },
      "input": [{ "lane": "questions", "from": "chat_1" }],
    },

    // What the agent may call: all tools that `control` binds to it.
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "." },
      "control": [{ "classType": "tool", "from": "agent_1" }],
    },

    // In its place a model: "llm_ollama" with {"model": "qwen3"}, llm_openai, llm_anthropic, … (`rrext nodes` lists them).
    {
      "id": "model_1",
      "provider": "llm_scripted",
      "config": {
        "script": [
          {
            "match": "file",
            "turns": [
              { "text": "I look.", "calls": [{ "tool": "list_directory", "input": {} }] },
              { "text": "The first file is {result.entries.0.name}." },
            ],
          },
        ],
        "default": "I only know how to list files.",
      },
      "control": [{ "classType": "llm", "from": "agent_1" }],
    },
    {
      "id": "answers_1",
      "provider": "response_answers",
      "config": {},
      "input": [{ "lane": "answers", "from": "agent_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

AGENT_CASES: Final = """\
// What the pipeline answers: `rrext test FILE.pipe`, or pytest. `rrext help test` has the forms of expectations.
{
  "cases": [
    {
      "name": "the agent looks at the files before it answers",
      "tool": "run_agent",
      "input": { "query": "Which files are here?" },
      "expect": { "$at": { "/content": { "$pattern": "^The first file is .+" }, "/meta/calls": 1 } },
    },
  ],
}
"""

API: Final = """\
// The tools of an API of your own, in Python: $stem.py. rrext.toml names both: here `rrext tool find_orders` is enough.
{
  "name": "$stem",
  "description": "Finds the orders of a shop.",
  "components": [
    { "id": "tools_1", "provider": "tools", "config": {} },

    // "url" is the address of the API; without one a sample answers.
    {
      "id": "orders_1",
      "provider": "orders",
      "config": { "url": "" },
      "control": [{ "classType": "tool", "from": "tools_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

API_CASES: Final = """\
// What the tools answer: `rrext test FILE.pipe`, or pytest. `rrext help test` has the forms of expectations.
{
  "cases": [
    { "name": "open orders are found", "tool": "find_orders", "expect": [{ "id": 1, "status": "open", "total": 12.5 }] },
    { "name": "an order has a total", "tool": "get_order", "input": { "number": 2 }, "expect": { "$at": { "/total": 80 } } },
    { "name": "a status is one of two", "tool": "find_orders", "input": { "status": "lost" }, "error": "invalid_arguments" },
  ],
}
"""

ORDERS: Final = '''\
"""The orders of a shop, behind an HTTP API, as tools."""

import json
from typing import Literal
from urllib.parse import quote
from urllib.request import urlopen

from rrext import Node, ToolContext, ToolError, tool_function

SAMPLE = {
    "orders/1": {"id": 1, "status": "open", "total": 12.5},
    "orders/2": {"id": 2, "status": "shipped", "total": 80.0},
    "orders?status=open": [{"id": 1, "status": "open", "total": 12.5}],
    "orders?status=shipped": [{"id": 2, "status": "shipped", "total": 80.0}],
}


class Orders(Node):
    """Finds the orders of a shop."""

    provider = "orders"

    class Config:
        url: str = ""
        timeout: float = 10

    @tool_function
    def find_orders(self, status: Literal["open", "shipped"] = "open", *, ctx: ToolContext) -> list[dict]:
        """Find the orders with a status.

        Args:
            status: What has become of them.
        """
        ctx.check()  # raises after a cancel or the deadline
        return self._get(f"orders?status={status}")

    @tool_function
    def get_order(self, number: int) -> dict:
        """Get one order by its number."""
        return self._get(f"orders/{number}")

    def _get(self, path: str):
        """What the API answers to a path."""
        if not self.config.url:
            if path not in SAMPLE:
                raise ToolError(f"The sample has no {path}.", hint="Set url in the settings of the node.")
            return SAMPLE[path]
        with urlopen(f"{self.config.url}/{quote(path, safe='/?=')}", timeout=self.config.timeout) as answer:
            return json.load(answer)
'''

PROJECT: Final = """\
# The project of this folder, for commands and editors. After a change of this file, `rrext trust` has to allow it.
version = 1
pipeline = "$stem.pipe"
nodes = ["$stem.py"]
root = "."
# env = ["SHOP_URL"]               # variables that pipelines read, as ${SHOP_URL}
# connections = "connections.toml" # servers with their keys: a file of yours alone

# Options of `rrext serve`, as it is run here without a FILE.pipe:
[serve]
log-level = "warning"
"""

STARTERS: Final = {
    "first": Starter("files and texts", {"$stem.pipe": FIRST}, ("rrext tool $file list_directory",)),
    "documents": Starter(
        "search in documents",
        {"$stem.pipe": DOCUMENTS, "$stem.cases.json": DOCUMENTS_CASES, "$stem.files/library.md": WELCOME},
        (
            "rrext send --sync $file $documents",
            "rrext tool $file search query='When is the library open?' top_k=1",
            "rrext test $file",
        ),
    ),
    "knowledge": Starter(
        "documents and questions",
        {"$stem.pipe": KNOWLEDGE},
        (
            "rrext send --sync $file $folder",
            "rrext tool $file search_documents query='…'",
            "rrext chat $file",
            "rrext mcp $file --tools 'knowledge_1.*' --print-config claude",
        ),
    ),
    "sql": Starter(
        "a database",
        {"$stem.pipe": SQL, "$stem.cases.json": SQL_CASES, "$stem.sql": VISITS},
        ("rrext sql $file --write -f $statements", "rrext sql $file 'select sum(people) from visit'", "rrext test $file"),
    ),
    "api": Starter(
        "tools of your own in Python",
        {"$stem.pipe": API, "$stem.cases.json": API_CASES, "$stem.py": ORDERS, "rrext.toml": PROJECT},
        (
            "rrext tools $file",
            "rrext tool $file find_orders status=open",
            "rrext test $file",
            "rrext mcp $file --print-config claude",
        ),
    ),
    "chat": Starter(
        "questions and answers",
        {"$stem.pipe": CHAT, "$stem.cases.json": CHAT_CASES},
        ("rrext chat $file 'When are you open?'", "rrext test $file", "rrext show $file"),
    ),
    "agent": Starter(
        "a model with tools",
        {"$stem.pipe": AGENT, "$stem.cases.json": AGENT_CASES},
        (
            "rrext chat $file 'Which files are here?'",
            "rrext test $file",
            "rrext tool $file run_agent query='Which files are here?'",
        ),
    ),
}
"""Name of a template → what it writes."""

PACKAGE: Final = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "A node of rrext."
requires-python = ">=3.11"
dependencies = ["rrext"]

[project.optional-dependencies]
test = ["pytest"]

# The provider, as pipelines name it, and its class: rrext finds it wherever this package is installed.
[project.entry-points."rrext.nodes"]
$module = "$module:$title"

[tool.setuptools]
py-modules = ["$module"]
"""

NODE: Final = '''\
"""A node of rrext: its settings and its tools."""

from typing import Annotated

from rrext import Node, tool_function


class $title(Node):
    """Counts the words of a text."""

    provider = "$module"

    class Config:
        least: Annotated[int, "Letters of the shortest word that counts."] = 1

    @tool_function
    def count_words(self, text: str) -> dict[str, int]:
        """Count the words of a text.

        Args:
            text: The text.
        """
        return {"words": sum(len(word) >= self.config.least for word in text.split())}
'''

NODE_TEST: Final = """\
from rrext.testing import call_tool
from $module import $title


def test_words_are_counted():
    assert call_tool($title, "count_words", {"text": "one two"}) == {"words": 2}


def test_short_words_are_left_out():
    assert call_tool($title, "count_words", {"text": "I see"}, config={"least": 2}) == {"words": 1}
"""

NODE_PIPELINE: Final = """\
// The node in a pipeline: a source, which owns nothing, may call its tools.
{
  "name": "$name",
  "components": [
    { "id": "tools_1", "provider": "tools", "config": {} },
    {
      "id": "${module}_1",
      "provider": "$module",
      "config": { "least": 2 },
      "control": [{ "classType": "tool", "from": "tools_1" }],
    },
  ],
  "project_id": "$project_id",
  "version": 1,
}
"""

NODE_PACKAGE: Final = Starter(
    "a node",
    {
        "pyproject.toml": PACKAGE,
        "$module.py": NODE,
        "test_$module.py": NODE_TEST,
        "$module.pipe": NODE_PIPELINE,
    },
    ("cd $folder", "pip install -e . && pytest", "rrext tool $pipeline count_words text='one two'"),
)
"""The package of a node. In texts `$name` is that of the package, `$module` that of the module and the provider, `$title` that
of the class.
"""
