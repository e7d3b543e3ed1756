"""`rrext init`: a first pipeline of one's own, which runs as it is."""

from __future__ import annotations

import argparse
import json
import os
import sys
from shlex import quote
from string import Template
from typing import Final

from rrext.cli.exit_codes import EXIT_USAGE
from rrext.cli.options import Command

DESCRIPTION = "Write a pipeline with a comment at each part, which runs at once. No file is overwritten."
EXAMPLE = """examples:
  rrext init notes.pipe
  rrext tool notes.pipe list_directory
  rrext init --template knowledge library.pipe --folder documents
  rrext send --sync library.pipe documents

Exit code 0: the file is written. 2: there is such a file already, or it cannot be written.
"""
PIPELINE: Final = Template("""\
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
""")

KNOWLEDGE: Final = Template("""\
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
      "config": { "path": $vectors, "shared": "space" },
      "input": [{ "lane": "documents", "from": "split_1" }],
      "control": [{ "classType": "store", "from": "knowledge_1" }],
    },

    // The whole documents, and the tools over them.
    {
      "id": "knowledge_1",
      "provider": "knowledge",
      "config": { "path": $catalog },
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
""")

TEMPLATES: Final = {"first": PIPELINE, "knowledge": KNOWLEDGE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", nargs="?", default="pipeline.pipe", metavar="FILE.pipe", help="its name (%(default)s), or - for stdout"
    )
    parser.add_argument(
        "--template",
        choices=tuple(TEMPLATES),
        default="first",
        help="first: files and texts; knowledge: documents and questions",
    )
    parser.add_argument("--folder", metavar="FOLDER", help="of the template knowledge: the documents, for the lines it prints")


def run(args: argparse.Namespace) -> int:
    """Write the file; returns the exit code."""
    from uuid import uuid4

    if args.folder is not None and (args.template != "knowledge" or not os.path.isdir(args.folder)):
        what = "is no folder" if args.template == "knowledge" else "belongs to --template knowledge"
        print(f"rrext: --folder {args.folder} {what}", file=sys.stderr)
        return EXIT_USAGE
    kept = "knowledge" if args.file == "-" else f"{os.path.splitext(os.path.basename(args.file))[0]}.kept"
    text = TEMPLATES[args.template].substitute(
        project_id=uuid4(), vectors=json.dumps(f"{kept}/vectors"), catalog=json.dumps(f"{kept}/documents")
    )
    if args.file == "-":
        sys.stdout.write(text)
        return 0
    begun = False
    try:
        with open(args.file, "x", encoding="utf-8") as file:
            begun = True
            file.write(text)
    except FileExistsError:
        print(f"rrext: {args.file} is there already, and is not overwritten: give another name", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        if begun:  # an empty file would stop the next try
            os.unlink(args.file)
        print(f"rrext: {args.file}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    file_name, folder = quote(args.file), quote(args.folder or "FOLDER")
    lines = {
        "first": [f"rrext tool {file_name} list_directory"],
        "knowledge": [
            f"rrext send --sync {file_name} {folder}",
            f"rrext tool {file_name} search_documents query='…'",
            f"rrext chat {file_name}",
            f"rrext mcp {file_name} --tools 'knowledge_1.*' --print-config claude",
        ],
    }[args.template]
    print("\n  ".join([f"rrext: {args.file} is written. Next:", *lines]), file=sys.stderr)
    return 0


INIT = Command(DESCRIPTION, EXAMPLE, add_arguments, run)
