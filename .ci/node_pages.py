"""The reference pages of the built-in nodes, made from their classes: one page for each folder of `rrext/nodes`, and a list.

`pages` is what `.ci/reference` writes. Nothing of this machine is asked: each class says what it needs as if no package were
there, and no driver is imported. An example is the pair `NAME.pipe` and `NAME.cases.json` of `tests/examples/nodes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple

from rrext.errors import RrextError
from rrext.nodes import BUILTIN
from rrext.nodes.base import setup
from rrext.nodes.base.node import InSpace, Node, Switch
from rrext.nodes.sandbox.engine import LANDLOCK
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.text.source import parse
from rrext.secrets.names import is_secret
from rrext.tools.spec import BothPredicates, ToolSpec

ROOT = Path(__file__).resolve().parents[1]
NODES = ROOT / "rrext" / "nodes"
EXAMPLES = ROOT / "tests" / "examples" / "nodes"
PAGE = "REFERENCE.md"
DEEPEST = 4
"""Objects within objects of a schema whose members are told, each in a row; deeper ones are objects."""
WIDTH = 110
"""Characters of a line of JSON."""
LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "in the form of `{}`",
    "format": "{}",
}
"""Keyword of JSON Schema → how its value is told."""

AT_LEAST_ONE = (("minLength", 1), ("minItems", 1), ("minProperties", 1))
"""Limits that only refuse what is empty."""

HEAD = """\
# Nodes

Every built-in node. `python .ci/reference` writes this page, and those that it links, from the code of the nodes: their lanes,
settings and tools, the line that installs what they need, and an example that the tests run. `rrext nodes NAME` tells the
same in a shell, and also of your own nodes; [Coming from RocketRide](ROCKETRIDE.md) compares them with RocketRide's.

"""
FAMILY_HEAD = """\
# Nodes: {family}

{text}

`python .ci/reference` writes this page from the code; [all nodes](../REFERENCE.md).

Of a setting, *path* is a file or folder, relative to `--root` or else to the folder of the pipeline; *secret* is best a
variable (`"${{NAME}}"`), and is in no answer and no log; *connection* is the name of one in the operator's file of connections.
`rrext test FILE.pipe` runs the examples, which stand in `tests/examples/nodes`; `${{…}}` in them are variables that name a
server.
"""


def pages() -> dict[Path, str]:
    """Path → text of each page. Raises `SystemExit` for a node whose class cannot be imported without its packages."""
    setup._is_there = lambda module: False  # pyright: ignore[reportPrivateUsage] # each class says what it needs
    catalog = Catalog(installed=False)
    families: dict[str, list[str]] = {}
    for provider, place in BUILTIN.items():
        families.setdefault(place.split(".")[2], []).append(provider)
    made: dict[Path, str] = {}
    listing = [HEAD + "| provider | is | lanes | tools | extra |\n|---|---|---|---|---|"]
    for family, providers in sorted(families.items()):
        described = {provider: told(catalog, provider) for provider in providers}
        made[NODES / family / PAGE] = family_page(family, catalog, described)
        listing += [row_of_list(family, catalog, definition) for definition in described.values()]
    made[NODES / PAGE] = "\n".join(listing) + "\n"
    return made


def told(catalog: Catalog, provider: str) -> dict[str, Any]:
    """The definition of a node, as `rrext_services` answers it."""
    try:
        return catalog.describe(provider)
    except RrextError as error:
        raise SystemExit(f"{provider} has no page: {error.message}") from error


def row_of_list(family: str, catalog: Catalog, definition: Mapping[str, Any]) -> str:
    provider = definition["prefix"]
    tools = ", ".join(f"`{tool['name']}`" for tool in definition["tools"])
    if catalog.class_of(provider).has_dynamic_tools:
        tools = f"{tools}, and those of a server" if tools else "those of a server"
    lanes = "; ".join(arrow(lane, outs) for lane, outs in definition["lanes"].items())
    if len(definition["lanes"].get("_source", ())) > 4:
        lanes = "sends all lanes"
    extra = extra_of(catalog.class_of(provider))
    cells = (f"[`{provider}`]({family}/{PAGE}#{provider})", definition["title"], lanes, tools, f"`{extra}`" if extra else "")
    return "| " + " | ".join(map(cell, cells)) + " |"


def arrow(lane: str, outs: list[str]) -> str:
    to = ", ".join(outs)
    return (f"sends {to}" if to else "") if lane == "_source" else f"{lane} → {to}" if to else lane


def extra_of(node: type[Node]) -> str:
    """The extra of the package that has what a node needs; empty if it needs nothing."""
    text = LANDLOCK.install if node.provider == "tool_python" else node.unavailable() or ""  # its answer is about the kernel
    found = re.search(r"rrext\[([\w,-]+)\]", text)
    return found[1] if found else ""


def family_page(family: str, catalog: Catalog, described: Mapping[str, dict[str, Any]]) -> str:
    """The page of one folder: each node, then each tool once."""
    module = __import__(f"rrext.nodes.{family}", fromlist=["*"])
    blocks = [
        FAMILY_HEAD.format(family=family, text=" ".join(cleandoc(module.__doc__ or "").partition("\n\n")[0].split())).strip()
    ]
    tools = tools_of(catalog, described)
    headings = {(owner, tool.descriptor["name"]): tool.heading for tool in tools for owner in tool.owners}
    shown: dict[Path, str] = {}
    for provider, definition in described.items():
        blocks += node_blocks(catalog.class_of(provider), definition, headings)
        blocks += example_blocks(catalog, family, provider, shown)
    if tools:
        blocks.append("## Tools")
    for tool in tools:
        blocks += tool_blocks(tool, alone=len(described) == 1)
    return "\n\n".join(blocks) + "\n"


def node_blocks(node: type[Node], definition: Mapping[str, Any], headings: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """The section of a node."""
    provider = definition["prefix"]
    yield f"## {provider}"
    title = "" if definition["title"] == provider else f"**{prose(definition['title'])}.** "
    yield f"{title}{prose(definition['description'])}"
    facts: list[str] = []
    if definition["aliases"]:
        facts.append(f"Other names: {names(definition['aliases'])}.")
    extra = extra_of(node)
    facts.append(f'Needs an extra: `pip install "rrext[{extra}]"`.' if extra else "Needs no extra.")
    if definition["classType"]:
        facts.append(f"Bound by control as {names(definition['classType'])}.")
    facts += [f"Wants {slot_of(kind, slot)}." for kind, slot in definition["invoke"].items()]
    if node.takes_references:
        facts.append("Its setting `tools` may list references to tools (protocol.md §8).")
    yield "\n".join(f"- {fact}" for fact in facts)
    if definition["lanes"]:
        rows = [
            ("(source)" if lane == "_source" else f"`{lane}`", names(outs) or "–") for lane, outs in definition["lanes"].items()
        ]
        yield table(("lane in", "lanes out"), rows)
    schema = definition["Pipe.schema"]
    settings = list(setting_rows(node, schema))
    if settings:
        yield table(("setting", "type", "default", "meaning"), settings)
    elif node.Config is None:
        yield "It takes any settings, and reads none."
    profiles = definition["preconfig"]["profiles"]
    if profiles:
        default = definition["preconfig"]["default"]
        rows = [
            (f"`{name}`{' (default)' if name == default else ''}", ", ".join(f"`{k}`: {literal(v)}" for k, v in values.items()))
            for name, values in profiles.items()
        ]
        yield table(("profile", "sets"), [(name, sets or "nothing") for name, sets in rows])
    links = [f"[`{tool['name']}`](#{anchor(headings[provider, tool['name']])})" for tool in definition["tools"]]
    if links:
        yield f"Tools: {', '.join(links)}."
    if node.has_dynamic_tools:
        yield "And the tools that the server has." if links else "Its tools are those that the server has."


def slot_of(kind: str, slot: Mapping[str, Any]) -> str:
    least, most = slot.get("min") or 0, slot.get("max")
    count = f"exactly {least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
    text = (slot.get("description") or "").rstrip(".")
    return f"`{kind}` bound to it, {count}{': ' + prose(text[:1].lower() + text[1:]) if text else ''}"


def setting_rows(node: type[Node], schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each setting, those within objects too."""
    for path, kind, default, meaning in rows_of(schema, schema):
        name = path.split(".")[0].split("[")[0]
        marks: list[str] = []
        if path == name and name in node.paths:
            marks.append(f"*path* of a {node.paths[name]}")
        if path == name and name in node.connections:
            marks.append(f"*connection* with the provider {node.connections[name]}")
        if "string" in kind and is_secret(re.split(r"[.\[\]]", path)[-1] or name):
            marks.append("*secret*")
        yield f"`{path}`", f"{kind}{'; ' if marks else ''}{'; '.join(marks)}", default, meaning


class Described(NamedTuple):
    """A tool of one or more nodes of a page: with its heading on the page, its nodes, its specification and its description."""

    heading: str
    owners: list[str]
    spec: ToolSpec
    descriptor: Mapping[str, Any]


def tools_of(catalog: Catalog, described: Mapping[str, dict[str, Any]]) -> list[Described]:
    """Each tool of a folder once, also if several nodes have it."""
    groups: dict[str, tuple[list[str], ToolSpec, dict[str, Any]]] = {}
    for provider, definition in described.items():
        specs = catalog.class_of(provider).tools
        for descriptor in definition["tools"]:
            spec = specs[descriptor["name"]]
            key = json.dumps([descriptor, rule_of(spec)], sort_keys=True)
            groups.setdefault(key, ([], spec, descriptor))[0].append(provider)
    all_names = [descriptor["name"] for _, _, descriptor in groups.values()]
    return [
        Described(
            f"Tool `{descriptor['name']}`{'' if all_names.count(descriptor['name']) == 1 else f' of {names(owners)}'}",
            owners,
            spec,
            descriptor,
        )
        for owners, spec, descriptor in groups.values()
    ]


def rule_of(spec: ToolSpec) -> str:
    """When a tool is offered, if not always."""
    if isinstance(spec.options.available, BothPredicates):
        return " ".join(rule(each) for each in spec.options.available._rules)  # pyright: ignore[reportPrivateUsage]
    return rule(spec.options.available)


def rule(available: Any) -> str:
    match available:
        case None:
            return ""
        case Switch():
            return f"Offered if the setting `{available.switch}` is on."
        case InSpace():
            return "Offered to calls that name a space."
        case _:
            text = getattr(available, "missing", "")
            return f"Offered on a condition: {prose(text)}" if isinstance(text, str) and text else "Offered on a condition."


def tool_blocks(tool: Described, *, alone: bool) -> Iterator[str]:
    """The section of a tool."""
    heading, owners, spec, descriptor = tool
    yield f"### {heading}"
    if not alone and " of " not in heading:
        yield f"Of {names(owners)}."
    if "inputSchema" not in descriptor:
        yield "Its description depends on the settings of the node."
        return
    yield prose(descriptor["description"])
    hints = descriptor.get("annotations", {})
    facts = [rule_of(spec), "It only reads." if hints.get("readOnlyHint") else ""]
    if spec.kind in ("generator", "async_generator"):
        facts.append("It answers in pieces while it runs.")
    if any(facts):
        yield " ".join(fact for fact in facts if fact)
    rows = [(f"`{path}`", kind, default, meaning) for path, kind, default, meaning in schema_rows(descriptor["inputSchema"])]
    yield table(("input", "type", "default", "meaning"), rows) if rows else "It takes no input."
    if "outputSchema" in descriptor:
        schema = descriptor["outputSchema"]
        output = [(f"`{path}`", kind, meaning) for path, kind, _, meaning in schema_rows(schema, output=True)]
        what = "piece" if spec.chunks_described else "result"
        yield table((what, "type", "meaning"), output) if output else f"The {what}: {kind_of(schema, schema, 0)}."


def schema_rows(schema: Mapping[str, Any], *, output: bool = False) -> Iterator[tuple[str, str, str, str]]:
    yield from rows_of(schema, schema, output=output)


def rows_of(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: str = "", depth: int = 0, *, output: bool = False
) -> Iterator[tuple[str, str, str, str]]:
    """Path, type, default and meaning of each member of a schema, and of the members of its objects."""
    schema = resolved(schema, root)
    required = set(schema.get("required", ()))
    for name, member in schema.get("properties", {}).items():
        here = f"{path}{name}"
        inner = resolved(member, root)
        kind = kind_of(member, root, depth)
        if name in required and not output:
            default = "required"
        elif "default" in member:
            default = literal(member["default"])
        else:
            default = "–"
        if output and name not in required:
            kind += ", if there is one"
        meaning = member.get("description") or inner.get("description") or ""
        yield here, kind, default, prose(meaning)
        if depth < DEEPEST:
            yield from inner_rows(inner, root, here, depth, output=output)


def inner_rows(
    schema: Mapping[str, Any], root: Mapping[str, Any], here: str, depth: int, *, output: bool
) -> Iterator[tuple[str, str, str, str]]:
    """The rows of what a member holds: objects, alone, in a list, or as one choice of several."""
    for choice in schema.get("anyOf", schema.get("oneOf", (schema,))):
        choice = resolved(choice, root)
        if "properties" in choice:
            yield from rows_of(choice, root, f"{here}.", depth + 1, output=output)
        for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
            inner = choice.get(key)
            if isinstance(inner, dict) and inner:
                yield from inner_rows(resolved(inner, root), root, f"{here}{mark}", depth + 1, output=output)


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def kind_of(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    """The type of a schema in words, with its limits."""
    if not isinstance(schema, Mapping) or depth > 2 * DEEPEST:
        return "anything"
    schema = resolved(schema, root)
    if "enum" in schema:
        return " or ".join(map(literal, schema["enum"]))
    if "const" in schema:
        return literal(schema["const"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(kind_of(choice, root, depth + 1) for choice in choices))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(kind)
    text = {None: "anything", "array": "list"}.get(kind, str(kind))
    if kind == "array" and "prefixItems" in schema:
        text = f"list of {', '.join(kind_of(item, root, depth + 1) for item in schema['prefixItems'])}"
    elif kind == "array" and isinstance(schema.get("items"), dict) and schema["items"]:
        text = f"list of ({kind_of(schema['items'], root, depth + 1)})"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        text = f"object of ({kind_of(schema['additionalProperties'], root, depth + 1)})"
    limits = [told_limit(key, schema[key]) for key in LIMITS if key in schema]
    text = re.sub(r"of \((\w+)\)", r"of \1", text)
    return f"{text} ({', '.join(limits)})" if limits else text


def told_limit(key: str, value: Any) -> str:
    return "not empty" if (key, value) in AT_LEAST_ONE else LIMITS[key].format(value)


def example_blocks(catalog: Catalog, family: str, provider: str, shown: dict[Path, str]) -> Iterator[str]:
    """The example of a node, its pipeline and a call, unless the page has `shown` them with another node."""
    path = example_of(catalog, family, provider)
    if path is None:
        return
    if path in shown:
        yield f"Its example is that of [`{shown[path]}`](#{shown[path]})."
        return
    shown[path] = provider
    text = path.read_text(encoding="utf-8")
    yield f"Example, `{path.relative_to(ROOT)}`:"
    yield f"```jsonc\n{text.strip()}\n```"
    case = case_of(catalog, provider, parse(text).value, path.with_suffix(".cases.json"))
    yield f"```jsonc\n{laid_out(case)}\n```"


def example_of(catalog: Catalog, family: str, provider: str) -> Path | None:
    """The pipeline that shows a node: of its own name, or else the first one that has it, best in the folder of its family."""
    found: list[Path] = []
    for path in sorted(EXAMPLES.glob("*/*.pipe")):
        components = parse(path.read_text(encoding="utf-8")).value["components"]
        if provider in {catalog.provider_of(each["provider"]) for each in components}:
            found.append(path)
    return min(found, key=lambda path: (path.stem != provider, path.parent.name != family, str(path)), default=None)


def case_of(catalog: Catalog, provider: str, pipeline: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The case that shows a node best: a case that names it, calls its tool or sends to its lane; else the first."""
    cases = parse(path.read_text(encoding="utf-8")).value["cases"]
    node = catalog.class_of(provider)
    ids = {each["id"] for each in pipeline["components"] if catalog.provider_of(each["provider"]) == provider}
    for fits in (
        lambda case: case.get("node") in ids,
        lambda case: case.get("tool") in node.tools,
        lambda case: case.get("lane") in node.lanes,
    ):
        for case in cases:
            if fits(case):
                return case
    return cases[0]


def laid_out(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON with as much on a line as fits; `before` characters stand there already."""
    flat = one_line(value)
    if len(indent) + before + len(flat) <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        lines = [inner + laid_out(each, inner) for each in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    named = [(f"{inner}{json.dumps(key)}: ", each) for key, each in value.items()]
    lines = [name + laid_out(each, inner, len(name) - len(inner)) for name, each in named]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def one_line(value: Any) -> str:
    if isinstance(value, dict) and value:
        return (
            "{ " + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {one_line(each)}" for key, each in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(one_line, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def names(all_names: Any) -> str:
    return ", ".join(f"`{name}`" for name in all_names)


def anchor(heading: str) -> str:
    """The name under which a page has a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def prose(text: str) -> str:
    """A text of the code as Markdown: outside of code, no character marks anything that its author did not mean."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(part if place % 2 else re.sub(r"([*<])", r"\\\1", part) for place, part in enumerate(parts))
