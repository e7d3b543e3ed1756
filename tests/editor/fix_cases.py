"""Documents with one mistake each, with what its fixes are called and what the first of them makes of the document."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from editor.fixing import SAMPLE
from pipefile.sample_nodes import component

from rrext.editor.analysis import AnalysisSettings

__all__ = ["CASES", "Case", "case", "changed", "doc"]


class Case(NamedTuple):
    """A document with a problem, what its fixes are called, and the document after the first of them, which is preferred."""

    code: str
    text: str
    titles: tuple[str, ...]
    after: str
    around: AnalysisSettings = SAMPLE


def doc(*components: dict[str, Any] | str, **more: Any) -> str:
    """A pipeline on one line."""
    listed = ", ".join(each if isinstance(each, str) else json.dumps(each) for each in components)
    members = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in more.items())
    return f'{{"components": [{listed}]{members}}}'


def changed(text: str, *pairs: str) -> str:
    """The text with each odd piece, which stands there once, replaced by the even one after it."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


W = component("w", "webhook")
C = component("c", "chat")
OUT = component("out", "response_text", "text:w")
AGENT = (C, component("a", "agent", "questions:c"), component("o", "response_answers", "answers:a"))
WEATHER = component("t", "weather", control="tool:w", days=2)


def llm(**config: Any) -> str:
    return doc(C, component("l", "llm", "questions:c", **config), component("o", "response_answers", "answers:l"))


def weather(**config: Any) -> str:
    return doc(W, component("t", "weather", control="tool:w", **config))


def offering(**reference: Any) -> str:
    edge = {"classType": "tool", "from": "w", "tools": [{"tool": "forecast", **reference}]}
    return doc(W, {**component("t", "weather"), "control": [edge]})


def case(code: str, text: str, first: str, *pairs: str, more: tuple[str, ...] = (), around: AnalysisSettings = SAMPLE) -> Case:
    return Case(code, text, (first, *more), changed(text, *pairs), around)


TEXT = [
    case(
        "wrapped",
        "```json\n" + doc(W, OUT) + "\n```\n",
        "Remove what stands around the pipeline",
        "```json\n",
        "",
        "}\n```\n",
        "}\n",
    ),
    case("wrapped", "const pipeline = " + doc(W, OUT), "Remove what stands around the pipeline", "const pipeline = ", ""),
    case("wrapped", "#!/usr/bin/rrext\n" + doc(W, OUT), "Remove what stands around the pipeline", "#!/usr/bin/rrext\n", ""),
    case("single_quotes", doc(W, OUT).replace('"out"', "\u201cout\u201d"), "Use double quotes", "\u201cout\u201d", '"out"'),
    case("single_quotes", doc(W, OUT).replace('"out"', '"out\u201d'), "Use double quotes", '"out\u201d', '"out"'),
    case("unexpected_text", "# a note: it's\n" + doc(W, OUT), "Replace # with //", "# a", "// a"),
    case(
        "misplaced_key",
        doc(W, OUT, '{"id": "t", "provider": "weather", "config": {"control": [{"classType": "tool", "from": "w"}]}}'),
        'Move "control" out of config',
        '{"control": [{"classType": "tool", "from": "w"}]}',
        '{}, "control": [{"classType": "tool", "from": "w"}]',
    ),
    case(
        "missing_key",
        doc('{"id": "w", "type": "webhook", "config": {}}', OUT),
        'Replace "type" with "provider"',
        '"type"',
        '"provider"',
    ),
    Case(
        "empty_file",
        "",
        ("Begin with a pipeline that sends back a text",),
        """{
  "components": [
    {
      "id": "webhook_1",
      "provider": "webhook",
      "config": {"mode": "Source", "type": "webhook"}
    },
    {
      "id": "response_text_1",
      "provider": "response_text",
      "config": {},
      "input": [{"lane": "text", "from": "webhook_1"}]
    }
  ]
}
""",
    ),
    case(
        "expected_value",
        '{"components": }',
        'Give "components" the value []',
        ": ",
        ": []",
        more=('Remove "components"', "Insert the missing {"),
    ),
    case("expected_value", '{"name": , "x": 1}', 'Give "name" the value ""', ": ,", ': "",', more=('Remove "name"',)),
    case("expected_value", '{"c": "a": 1}}', "Insert the missing {", '"a"', '{"a"', more=('Give "c" the value null',)),
    case("expected_key", '{"id": 1, [{}]}', 'Insert the key "components"', "[{}]", '"components": [{}]'),
    case("expected_colon", '{"a" 1}', 'Insert a colon after "a"', '"a"', '"a":', more=('Give "a" the value null',)),
    case(
        "expected_colon",
        '{"a" = 1}',
        "Replace = with a colon",
        " =",
        ":",
        more=('Insert a colon after "a"', 'Give "a" the value null'),
    ),
    case("expected_colon", '{"a"}', 'Give "a" the value null', '"a"', '"a": null', more=('Insert a colon after "a"',)),
    case("expected_comma", '{"a": 1 "b": 2}', "Insert a comma", "1", "1,"),
    case("extra_comma", '{"a": [1,, 2]}', "Remove the extra comma", ",,", ","),
    case("missing_bracket", '{"a": {"b": 1},\n {}]}', "Insert the missing [", '{"b"', '[{"b"'),
    case(
        "missing_brace",
        '{"components": ["id": "a", "config": {}]}',
        "Insert braces around these members",
        '["id"',
        '[{"id"',
        "}]",
        "}}]",
        more=("Insert the missing {",),
    ),
    case(
        "missing_brace",
        '["id": "a"}]',
        "Insert the missing {",
        '"id"',
        '{"id"',
        more=("Insert braces around these members",),
    ),
    case(
        "unclosed",
        '{\n  "a": [\n    1\n',
        "Insert the missing closing brackets at the end",
        "1\n",
        "1\n  ]\n}\n",
        more=("Insert the missing ]",),
    ),
    case(
        "unclosed", '{"a": [1, 2', "Insert the missing closing brackets at the end", "2", "2]}", more=("Insert the missing ]",)
    ),
    case(
        "unclosed",
        '{\n  "a": {\n    "b": 1,\n  "c": 2\n}\n',
        "Insert the missing } below line 3",
        "1,\n",
        "1,\n  },\n",
        more=("Insert the missing closing brackets at the end", "Insert the missing } below line 4", "Insert the missing }"),
    ),
    case(
        "unclosed",
        '{"a": [{"b": {"c": 1} ]}]}',
        "Insert the missing [",
        '{"c"',
        '[{"c"',
        more=("Remove the ] that does not belong here", "Insert the missing }", "Replace ] with }"),
    ),
    case(
        "unclosed",
        '{"a": [{"b": 1}}, {"c": 2}]}',
        "Remove the } that does not belong here",
        "}}",
        "}",
        more=("Insert the missing ]", "Replace } with ]"),
    ),
    case("unexpected_closer", "[1, 2}]", "Remove the extra }", "}", "", more=("Replace } with ]",)),
    case("unexpected_closer", "[1, 2}", "Replace } with ]", "}", "]", more=("Remove the extra }",)),
    case("unexpected_text", '{"a": True}', "Replace True with true", "True", "true"),
    case("unexpected_text", '{"a": undefined}', "Replace undefined with null", "undefined", "null"),
    case("unexpected_text", '{"a": [] ; "b": 1}', "Replace the semicolon with a comma", ";", ",", more=('Remove ";"',)),
    case("unexpected_text", '{"a": : 1}', 'Remove ":"', ": :", ": "),
    case("unexpected_text", '{a": 1}', "Insert the missing quote", "a", '"a', more=('Remove "a"',)),
    case("unexpected_text", '{"a": "b, "c": 1}', 'Insert the missing quote after "b', "b", 'b"', more=('Remove "c"',)),
    case(
        "trailing_text",
        '{"a": 1}, "b": 2}',
        "Remove the } that ends the value too early",
        "1}",
        "1",
        more=('Remove ", "b": 2}"',),
    ),
    case("unterminated_string", '{"a": "b}', "Insert the missing quote", "b", 'b"'),
    case("unterminated_string", '{"a: 1}', 'Insert the missing quote after "a', "a", 'a"', more=("Insert the missing quote",)),
    case("unterminated_string", '["a", "b\n]', "Insert the missing quote", "b", 'b"'),
    case("unterminated_comment", '{"a": 1} /* x', "End the comment at the end of its line", "x", "x */"),
    case("unquoted_text", "[1 ; 2]", "Replace the semicolon with a comma", ";", ",", more=("Put quotes around ; 2",)),
    case("unquoted_text", "{a: 1}", "Put quotes around a", "a", '"a"'),
    case("unquoted_text", '{"x": a b}', "Put quotes around a b", "a b", '"a b"', more=("Put quotes around a",)),
    case("unquoted_text", '{"x": abc", "y": 1}', "Insert the missing quote", "abc", '"abc'),
    case("single_quotes", "{'it\\'s \"x\"': 1}", "Use double quotes", "'it\\'s \"x\"'", '"it\'s \\"x\\""'),
    case("single_quotes", "{'a: 1}", "Use double quotes", "'a", '"a"', more=("Use double quotes", "Use double quotes")),
    case("invalid_escape", r'["C:\dir"]', "Escape the backslash", r"\d", r"\\d", more=("Remove the backslash",)),
    case(
        "invalid_escape",
        r'["\x41"]',
        r"Replace \x41 with \u0041",
        r"\x41",
        r"\u0041",
        more=("Escape the backslash", "Remove the backslash"),
    ),
    case("invalid_escape", r"""["it\'s"]""", "Remove the backslash", "\\", "", more=("Escape the backslash",)),
    case(
        "invalid_escape",
        r'["\ud800"]',
        r"Replace \ud800 with \ufffd",
        r"\ud800",
        r"\ufffd",
        more=("Escape the backslash", "Remove the backslash"),
    ),
    case("invalid_escape", '["\\\t"]', r"Write it as \t", "\\\t", r"\t"),
    case("control_character", '["a\tb"]', r"Write it as \t", "\t", r"\t"),
    case("control_character", '["a\x01b"]', r"Write it as \u0001", "\x01", r"\u0001"),
    case("invalid_number", "[01]", "Replace 01 with 1", "01", "1", more=("Put quotes around 01",)),
    case("invalid_number", "[-.5]", "Replace -.5 with -0.5", "-.5", "-0.5", more=("Put quotes around -.5",)),
    case("invalid_number", "[1.]", "Replace 1. with 1.0", "1.", "1.0", more=("Put quotes around 1.",)),
    case("invalid_number", "[+1e3]", "Replace +1e3 with 1e3", "+1e3", "1e3", more=("Put quotes around +1e3",)),
    case("invalid_number", "[0x1F]", "Replace 0x1F with 31", "0x1F", "31", more=("Put quotes around 0x1F",)),
    case("invalid_number", "[1_000]", "Replace 1_000 with 1000", "1_000", "1000", more=("Put quotes around 1_000",)),
    case("invalid_number", "[2026-11-21]", "Put quotes around 2026-11-21", "2026-11-21", '"2026-11-21"'),
    case("invalid_number", "[1e999]", "Put quotes around 1e999", "1e999", '"1e999"'),
    case("invalid_number", '{"a": 1; "b": 2}', "Replace the semicolon with a comma", ";", ",", more=("Put quotes around 1;",)),
    case(
        "not_finite", "[-Infinity]", "Replace -Infinity with null", "-Infinity", "null", more=("Put quotes around -Infinity",)
    ),
    case(
        "duplicate_key",
        '{"a": 1, "b": 2, "a": 3}',
        'Remove the first "a", which does not count',
        '"a": 1, ',
        "",
        more=('Remove this "a"',),
    ),
]

SHAPE = [
    case(
        "wrong_type",
        '[{"id": "a"}]',
        "Make this list the components of a pipeline",
        '[{"id": "a"}]',
        '{"components": [{"id": "a"}]}',
    ),
    case("wrong_type", '{"components": {}}', "Put brackets around it: a list is expected", "{}", "[{}]"),
    case("wrong_type", '{"components": null}', "Replace null with []", "null", "[]"),
    case("wrong_type", doc(W, OUT, version="1"), "Set version to 1", '"1"', "1"),
    case("wrong_type", doc(W, OUT, name=3), "Put quotes around 3", "3", '"3"'),
    case("wrong_type", doc('{"id": "w", "provider": "webhook", "config": null}', OUT), "Replace null with {}", "null", "{}"),
    case(
        "wrong_type",
        doc('{"id": "", "provider": "webhook", "config": {}}'),
        'Replace "" with "webhook_1"',
        '""',
        '"webhook_1"',
    ),
    case(
        "wrong_type",
        doc(W, '{"id": "o", "provider": "response_text", "config": {}, "input": ["w"]}'),
        'Replace "w" with {"lane": "text", "from": "w"}',
        '["w"]',
        '[{"lane": "text", "from": "w"}]',
        more=("Remove what is no edge",),
    ),
    case(
        "wrong_type",
        doc(W, '{"id": "o", "provider": "response_text", "config": {}, "input": [{"lane": "", "from": "w"}]}'),
        'Replace "" with "text"',
        '""',
        '"text"',
        more=("Remove this edge",),
    ),
    case(
        "wrong_type",
        llm(profile=""),
        'Choose the profile "small"',
        '""',
        '"small"',
        more=('Choose the profile "large"', 'Remove "profile"'),
    ),
    case("missing_key", "{}", 'Add "components": []', "{}", '{"components": []}'),
    case("missing_key", '{"source": "a"}', 'Add "components": []', "{", '{"components": [], '),
    case(
        "missing_key",
        doc('{"provider": "webhook", "config": {}}'),
        'Add "id": "webhook_1"',
        '"provider"',
        '"id": "webhook_1", "provider"',
    ),
    case(
        "missing_key",
        doc('{"id": "webhook_1", "config": {}}'),
        'Add "provider": "webhook"',
        '_1"',
        '_1", "provider": "webhook"',
    ),
    case(
        "missing_key",
        doc('{"id": "w", "provder": "webhook", "config": {}}'),
        'Replace "provder" with "provider"',
        "provder",
        "provider",
    ),
    case(
        "missing_key",
        doc(W, '{"id": "o", "provider": "response_text", "config": {}, "input": [{"from": "w"}]}'),
        'Add "lane": "text"',
        '"from"',
        '"lane": "text", "from"',
        more=("Remove this edge",),
    ),
    case(
        "missing_key",
        doc(W, '{"id": "t", "provider": "tool_hammer", "config": {}, "control": [{"classType": "tool"}]}'),
        'Add "from": "w"',
        '"tool"',
        '"tool", "from": "w"',
        more=("Remove this edge",),
    ),
    case(
        "unknown_key",
        doc(W, OUT, versoin=1),
        'Replace "versoin" with "version"',
        "versoin",
        "version",
        more=('Remove "versoin"',),
    ),
    case("invalid_version", doc(W, OUT, version=2), "Set version to 1", ": 2", ": 1"),
    case(
        "duplicate_id",
        doc(W, component("u", "upper", "text:w"), component("u", "response_text", "text:u")),
        'Rename this "u" to "response_text_1"',
        '"u", "provider": "response',
        '"response_text_1", "provider": "response',
        more=('Remove this "u"',),
    ),
    case(
        "duplicate_id",
        doc(W, component("u", "upper", "text:w"), component("u", "ask", "text:w"), component("o", "response", "text:u")),
        'Rename this "u" to "ask_1"; edges stay with the first one',
        '"u", "provider": "ask',
        '"ask_1", "provider": "ask',
        more=('Rename this "u" to "ask_1", with every edge from it', 'Remove this "u"'),
    ),
    case(
        "unknown_provider",
        doc(component("w", "webhok"), OUT),
        'Replace "webhok" with "webhook"',
        "webhok",
        "webhook",
    ),
]

VARIABLES = [
    case(
        "unresolved_variable",
        weather(units="${ROCKETRIDE_KY}"),
        "Replace ${ROCKETRIDE_KY} with ${ROCKETRIDE_KEY}",
        "_KY",
        "_KEY",
    ),
    case(
        "variable_not_allowed",
        weather(units="a ${KEY}"),
        "Replace ${KEY} with ${ROCKETRIDE_KEY}",
        "${KEY}",
        "${ROCKETRIDE_KEY}",
    ),
    case(
        "variable_not_allowed", weather(units="${HOME}"), "Replace ${HOME} with ${ROCKETRIDE_HOME}", "{HOME", "{ROCKETRIDE_HOME"
    ),
]

CONFIG = [
    case(
        "profile_not_found",
        llm(profile="smal"),
        'Replace "smal" with "small"',
        '"smal"',
        '"small"',
        more=('Choose the profile "large"', 'Remove "profile"'),
    ),
    case("profile_not_found", weather(profile="x"), 'Remove "profile"', '"profile": "x"', ""),
    case(
        "beside_profile",
        llm(profile="small", small={"model": "m"}, apikey={"x": [1]}),
        'Move "apikey" into "small"',
        '"m"}, "apikey": {"x": [1]}',
        '"m", "apikey": {"x": [1]}}',
        more=('Remove "apikey"',),
    ),
    case(
        "beside_profile",
        llm(profile="small", apikey=1),
        'Move "apikey" into "small"',
        '"apikey": 1',
        '"small": {"apikey": 1}',
        more=('Remove "apikey"',),
    ),
    case(
        "profile_not_selected",
        llm(large={"model": "m"}),
        'Select the profile "large"',
        '"large"',
        '"profile": "large", "large"',
        more=('Remove "large"',),
    ),
    case("invalid_reference", offering(nam="x"), 'Replace "nam" with "name"', '"nam"', '"name"'),
    case("invalid_reference", offering(permission="aks"), 'Replace "aks" with "ask"', '"aks"', '"ask"'),
    case("invalid_reference", offering(arguments={"dayss": 1}), 'Replace "dayss" with "days"', '"dayss"', '"days"'),
    case("reference_not_found", offering(tool="forcast"), 'Replace "forcast" with "forecast"', "forcast", "forecast"),
    case("unknown_config_key", weather(unit="x"), 'Replace "unit" with "units"', '"unit"', '"units"', more=('Remove "unit"',)),
    case("invalid_config", weather(days="3"), 'Replace "3" with 3', '"3"', "3", more=('Remove "days"; its default is 3',)),
    case("invalid_config", weather(days=0), "Replace 0 with 1", ": 0", ": 1", more=('Remove "days"; its default is 3',)),
    case("invalid_config", weather(station=3), 'Replace 3 with "3"', "3", '"3"', more=('Remove "station"',)),
    case("invalid_config", weather(tags=["a", 1]), 'Replace 1 with "1"', "1]", '"1"]', more=("Remove this element",)),
    case(
        "invalid_config",
        weather(tags="a"),
        'Replace "a" with ["a"]',
        '"tags": "a"',
        '"tags": ["a"]',
        more=('Remove "tags"; its default is []',),
    ),
]

EDGES = [
    case(
        "from_not_found",
        doc(component("hook_1", "webhook"), component("o", "response_text", "text:hok_1")),
        'Replace "hok_1" with "hook_1"',
        "hok_1",
        "hook_1",
        more=('Remove the edge from "hok_1"',),
    ),
    case(
        "from_not_found",
        doc(component("hook_1", "webhook"), component("o", "response_text", "text:hoook_1")),
        'Replace "hoook_1" with "hook_1"',
        "hoook_1",
        "hook_1",
        more=('Remove the edge from "hoook_1"',),
    ),
    case(
        "unknown_lane",
        doc(W, component("o", "response_text", "txt:w")),
        'Replace "txt" with "text"',
        "txt",
        "text",
        more=('Remove the edge from "w"',),
    ),
    case(
        "lane_not_accepted",
        doc(W, component("o", "response_text", "questions:w")),
        'Replace "questions" with "text"',
        "questions",
        "text",
        more=('Remove the edge from "w"',),
    ),
    case(
        "lane_not_offered",
        doc(C, component("o", "response_text", "text:c")),
        'Make "o" a response that reads questions',
        "response_text",
        "response",
        '"lane": "text"',
        '"lane": "questions"',
        more=('Remove the edge from "c"',),
    ),
    case(
        "lane_not_offered",
        doc(W, component("u", "upper", "text:w", "table:w"), component("o", "response", "text:u")),
        'Remove the edge from "w"',
        ', {"lane": "table", "from": "w"}',
        "",
    ),
    case(
        "duplicate_edge",
        doc(W, component("o", "response_text", "text:w", "text:w")),
        "Remove this edge, which stands here already",
        ', {"lane": "text", "from": "w"}]',
        "]",
    ),
    case(
        "class_type_not_served",
        doc(W, component("t", "tool_hammer", control="tol:w")),
        'Replace "tol" with "tool"',
        '"tol"',
        '"tool"',
        more=('Remove the edge from "w"',),
    ),
    case(
        "class_type_not_served",
        doc(W, component("t", "tool_hammer", control="memory:w")),
        'Replace "memory" with "tool"',
        '"memory"',
        '"tool"',
        more=('Remove the edge from "w"',),
    ),
    case(
        "control_on_invoker",
        doc(component("w", "webhook", control="tool:t"), component("t", "tool_hammer"), source="w"),
        'Move this edge to "t", which is invoked',
        ', "control": [{"classType": "tool", "from": "t"}]',
        "",
        'hammer", "config": {}',
        'hammer", "config": {}, "control": [{"classType": "tool", "from": "w"}]',
        more=('Remove the edge from "t"',),
    ),
    case(
        "cycle",
        doc(W, component("u", "upper", "text:w", "text:u"), component("o", "response_text", "text:u")),
        "Remove the edge u-[text]->u",
        ', {"lane": "text", "from": "u"}',
        "",
    ),
]

WHOLE = [
    case(
        "invoke_missing",
        doc(*AGENT, component("l", "llm")),
        'Bind "l" to "a" (llm)',
        '"llm", "config": {}',
        '"llm", "config": {}, "control": [{"classType": "llm", "from": "a"}]',
        more=('Add "llm_1", bound to "a" (llm)',),
    ),
    case(
        "invoke_missing",
        doc(*AGENT),
        'Add "llm_1", bound to "a" (llm)',
        "]}]}",
        ']}, {"id": "llm_1", "provider": "llm", "config": {}, "control": [{"classType": "llm", "from": "a"}]}]}',
    ),
    case(
        "no_source",
        doc(component("u", "upper")),
        'Add the source "webhook_1"',
        '[{"id"',
        '[{"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source", "type": "webhook"}}, {"id"',
        more=('Add the source "chat_1"',),
    ),
    case(
        "no_source",
        doc(component("l", "llm")),
        'Add the source "chat_1"',
        '[{"id"',
        '[{"id": "chat_1", "provider": "chat", "config": {"mode": "Source", "type": "chat"}}, {"id"',
        more=('Add the source "webhook_1"',),
    ),
    case(
        "multiple_sources",
        doc(W, component("c", "webhook"), OUT),
        'Begin at "w"',
        "}]}]}",
        '}]}], "source": "w"}',
        more=('Begin at "c"',),
    ),
    case("source_not_found", doc(W, OUT, source="x"), 'Begin at "w"', '"x"', '"w"', more=('Remove "source"',)),
    case(
        "not_a_source", doc(W, OUT, source="out"), 'Begin at "w"', '"source": "out"', '"source": "w"', more=('Remove "source"',)
    ),
    case(
        "not_connected",
        doc(W, OUT, component("t", "tool_hammer"), source="w"),
        'Bind it to "w" (tool)',
        'hammer", "config": {}',
        'hammer", "config": {}, "control": [{"classType": "tool", "from": "w"}]',
        more=('Remove "t"',),
    ),
    case(
        "not_connected",
        doc(
            C,
            component("l", "llm", "questions:c"),
            component("o", "response_answers", "answers:l"),
            component("x", "response_text"),
        ),
        'Remove "x"',
        ', {"id": "x", "provider": "response_text", "config": {}}',
        "",
    ),
    case(
        "no_response",
        doc(W, component("u", "upper", "text:w")),
        'Add response_text after "u"',
        "}]}]}",
        '}]}, {"id": "response_text_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "u"}]}]}',
    ),
    case(
        "no_response",
        doc(W, component("u", "upper", "text:w"), component("q", "ask", "text:w")),
        'Add response after "u" and "q" for text, questions',
        "}]}]}",
        '}]}, {"id": "response_1", "provider": "response", "config": {}, '
        '"input": [{"lane": "text", "from": "u"}, {"lane": "questions", "from": "q"}]}]}',
        more=('Add response_text after "u"', 'Add response after "q"'),
    ),
    case(
        "output_unread",
        doc(W, OUT, component("u", "upper", "text:w")),
        'Add response_text after "u"',
        "}]}]}",
        '}]}, {"id": "response_text_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "u"}]}]}',
    ),
    case(
        "source_unread",
        doc(W),
        'Add response_text after "w"',
        "}]}",
        '}, {"id": "response_text_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]}]}',
    ),
    case(
        "source_unread",
        doc(W, component("u", "upper")),
        'Connect "u" to it (text)',
        '"upper", "config": {}',
        '"upper", "config": {}, "input": [{"lane": "text", "from": "w"}]',
        more=('Add response_text after "w"',),
    ),
    case(
        "source_unread",
        doc(C),
        'Add llm and response_answers after "c"',
        "}]}",
        '}, {"id": "llm_1", "provider": "llm", "config": {}, "input": [{"lane": "questions", "from": "c"}]}'
        ', {"id": "response_answers_1", "provider": "response_answers", "config": {}, '
        '"input": [{"lane": "answers", "from": "llm_1"}]}]}',
        more=('Add response after "c"',),
    ),
    case(
        "response_key_unread",
        doc(W, component("r", "response", "text:w", lanes=[{"laneId": "answers", "laneName": "b"}])),
        'Replace "answers" with "text"',
        '"answers"',
        '"text"',
        more=('Remove the key for "answers"',),
    ),
    case(
        "response_key_unread",
        doc(
            W,
            component(
                "r", "response", "text:w", lanes=[{"laneId": "text", "laneName": "a"}, {"laneId": "questions", "laneName": "b"}]
            ),
        ),
        'Remove the key for "questions"',
        ', {"laneId": "questions", "laneName": "b"}',
        "",
        more=('Read questions from "w" too',),
    ),
]

CASES = [*TEXT, *SHAPE, *VARIABLES, *CONFIG, *EDGES, *WHOLE]
