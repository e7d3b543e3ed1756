"""`rrext tool` with `key=value`, JSON and rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import EXAMPLES, Done, call, component, here, pipeline
from hypothesis import given
from hypothesis import strategies as st

from rrext.cli.commands.calls.tool import input_of_pairs, rows_in
from rrext.errors import UsageError

FILES = str(EXAMPLES / "filesystem.pipe")
NODE = """
from typing import Annotated, Any, Literal
from rrext import Node, tool_function


class Forms(Node):
    provider = "forms"

    @tool_function
    def take(
        self,
        text: str = "",
        number: float = 0.0,
        count: int | None = None,
        flag: bool = False,
        tags: list[str] | None = None,
        sizes: list[int] = [],
        kind: Literal["a", 1, None] = "a",
        data: bytes = b"",
        either: int | str = 0,
        any: Any = None,
        inner: dict[str, int] | None = None,
    ) -> dict[str, Any]:
        return {name: value for name, value in locals().items() if name != "self"}
"""
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), lambda inner: st.lists(inner))


def test_a_value_without_its_name_gets_a_hint_to_the_names(take: Any, capfd: pytest.CaptureFixture[str]) -> None:
    done = take("2")
    assert (done.code, "hint: write KEY=2 with one of text, number, count," in done.err) == (2, True)
    done = here(capfd, "tool", FILES, "read_file", '"notes"')
    assert (done.code, 'hint: write path="notes"' in done.err) == (2, True)
    assert "required: TOOL;" in here(capfd, "tool", FILES).err


@pytest.fixture
def take(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "forms_node.py").write_text(NODE)
    path = pipeline(tmp_path, component("t", "tools"), component("f", "forms", control="t"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        return here(capfd, "tool", path, "take", "--nodes", "forms_node.py", *words)

    return run


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("text=5", "text", "5"),
        ("text=", "text", ""),
        ("text=a=b:=c", "text", "a=b:=c"),
        ("text=null", "text", "null"),
        ("number=5", "number", 5),
        ("number=-2.5e3", "number", -2500.0),
        ("count=7", "count", 7),
        ("count=null", "count", None),
        ("flag=true", "flag", True),
        ("tags=x", "tags", ["x"]),
        ("tags=5", "tags", ["5"]),
        ('tags=["x", "y"]', "tags", ["x", "y"]),
        ("sizes=5", "sizes", [5]),
        ("kind=1", "kind", 1),
        ("kind=a", "kind", "a"),
        ("either=5", "either", 5),
        ("either=x", "either", "x"),
        ("any=[1]", "any", [1]),
        ("any=some text", "any", "some text"),
        ("inner={}", "inner", {}),
        ('text:="5"', "text", "5"),
    ],
)
def test_a_value_has_the_type_of_its_parameter(word: str, key: str, value: Any, take: Any) -> None:
    done = take(word)
    assert done.code == 0, done.err
    assert done.value[key] == value
    assert type(done.value[key]) in (type(value), float)


def test_a_repeated_key_makes_a_list_and_words_may_follow_options(take: Any) -> None:
    value = take("tags=x", "tags=y", "--node", "f", "sizes=1", "sizes=2").value
    assert (value["tags"], value["sizes"]) == (["x", "y"], [1, 2])
    assert "--nod3" in take("tags=x", "--nod3").err


def test_the_content_of_a_file_is_a_text_bytes_or_json(tmp_path: Path, take: Any) -> None:
    (tmp_path / "a.txt").write_text("5\n")
    assert take("text=@a.txt").value["text"] == "5\n"
    assert take("data=@a.txt").value["data"] == "NQo="
    assert take("any:=@a.txt").value["any"] == 5
    assert "none.txt: No such file" in take("text=@none.txt").err
    (tmp_path / "b.bin").write_bytes(b"\xff")
    assert "b.bin is no UTF-8 text" in take("text=@b.bin").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("count=x",), "/input/count: "),
        (("cuont=1",), 'did you mean "count"?'),
        (("count:=x",), "count: it is not JSON"),
        (("text=a", "b"), "b: expected KEY=VALUE, KEY:=JSON, or one JSON value alone"),
        (("welcome.txt",), "KEY=VALUE names a member, as in `path=welcome.txt`"),
        (("text=a", "--input", "{}"), "the input is given twice"),
    ],
)
def test_input_that_does_not_fit_calls_nothing(words: tuple[str, ...], said: str, take: Any) -> None:
    done = take(*words)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


def test_one_json_value_or_a_file_of_it_is_the_whole_input(tmp_path: Path, take: Any) -> None:
    assert take('{"text": "a=b"}').value["text"] == "a=b"
    (tmp_path / "in.json").write_text('{"text": "c"}')
    assert take("@in.json").value["text"] == "c"


def test_pairs_reach_a_tool_that_does_not_exist_with_near_matches(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tool", FILES, "read_fil", "path=welcome.txt")
    assert (done.code, "Did you mean" in done.err) == (2, True)


@given(JSON)
def test_raw_json_is_what_it_is_whatever_the_schema_says(value: Any) -> None:
    assert input_of_pairs([f"key:={json.dumps(value)}"], {"properties": {"key": {"type": "boolean"}}}) == {"key": value}


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_any_text_is_a_text_where_a_text_is_expected(text: str) -> None:
    assert input_of_pairs([f"key={text}"], {"properties": {"key": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}) == {
        "key": text
    }


def test_a_reference_in_a_schema_is_followed() -> None:
    schema = {"properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}}
    assert input_of_pairs(["n=5"], schema) == {"n": 5}


def test_a_word_that_is_no_pair_is_refused() -> None:
    with pytest.raises(UsageError):
        input_of_pairs(["a=1", "=2"], {})


# rows

LIST = ("tool", FILES, "list_directory", "path=.")


def test_rows_are_csv_or_a_table_and_the_rest_of_the_result_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, *LIST, "--csv")
    names = [row["name"] for row in csv.DictReader(io.StringIO(done.out.decode()))]
    assert names == ["catalog.csv", "notes", "welcome.txt"]
    assert done.err == 'path: ".", count: 3, truncated: false\n'
    table = here(capfd, *LIST, "--table").out.decode().splitlines()
    assert table[0].split() == ["name", "|", "type", "|", "size", "|", "modified"]
    assert len(table) == 5


def test_a_terminal_gets_rows_as_a_table_and_all_else_as_json(tmp_path: Path) -> None:
    with at_terminal(LIST, folder=tmp_path, NO_COLOR="1") as terminal:
        assert terminal.ended() == 0
        assert "catalog.csv | file" in terminal.shown
    with at_terminal([*LIST, "--json"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert json.loads(terminal.shown)["count"] == 3
    with at_terminal(["tool", FILES, "read_file", "path=welcome.txt"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert json.loads(terminal.shown)["content"].startswith("Welcome")


def test_a_result_without_rows_is_no_csv_and_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tool", FILES, "read_file", "path=welcome.txt", "--csv")
    assert (done.code, done.out) == (1, b"")
    assert "the result has no rows for --csv: " in done.err
    assert "Welcome" in done.err


def test_the_rows_of_a_database_keep_their_columns_also_without_rows(capfd: pytest.CaptureFixture[str]) -> None:
    query = ("tool", str(EXAMPLES / "duckdb.pipe"), "query", "--csv")
    done = here(capfd, *query, "sql=select 1 as a, 'x' as b where false")
    assert (done.code, done.out) == (0, b"a,b\n")
    done = here(capfd, *query, "sql=select $1 + 1 as a", "params:=[41]")
    assert (done.code, done.out) == (0, b"a\n42\n")


@pytest.mark.parametrize(
    ("value", "names", "rows"),
    [
        ([{"a": 1}, {"b": 2}], ["a", "b"], [{"a": 1, "b": None}, {"a": None, "b": 2}]),
        ([[{"a": 1}], [{"a": 2}]], ["a"], [{"a": 1}, {"a": 2}]),
        ({"found": [{"a": 1}], "count": 1}, ["a"], [{"a": 1}]),
    ],
)
def test_rows_are_found(value: Any, names: list[str], rows: list[Any]) -> None:
    found = rows_in(value)
    assert found is not None
    assert (found.names, found.rows) == (names, rows)


@pytest.mark.parametrize("value", [1, "a", None, [], {}, [1], [{}], {"a": [{"b": 1}], "c": [{"d": 1}]}, [[1]], {"rows": []}])
def test_other_results_are_no_rows(value: Any) -> None:
    assert rows_in(value) is None


def test_stream_goes_with_json_alone(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, *LIST, "--stream", "--csv")
    assert (done.code, "--stream writes lines of JSON" in done.err) == (2, True)


def test_a_table_of_chunks_and_objects_shows_the_file_of_each_at_80_columns(memory_path: Path) -> None:
    control = [{"classType": "tool", "from": "t"}]
    store = {"id": "s", "provider": "store_qdrant_edge", "config": {"path": "s", "min_free_bytes": 0}, "control": control}
    path = memory_path / "p.pipe"
    path.write_text(json.dumps({"source": "t", "components": [{"id": "t", "provider": "tools"}, store]}))
    files = ["docs/a.txt", f"{'docs/of/many/people/' * 4}report of May.txt"]
    texts = [f"a library and more of its words than {number} lines hold " * 3 for number in range(len(files))]
    documents = [
        {
            "object_id": f"2b39a829-93f1-5346-a313-f3b4cc4d777{len(file) % 10}",
            "content": text,
            "metadata": {"permissionId": None, "isTable": False, "parent": file},
        }
        for file, text in zip(files, texts, strict=True)
    ]
    assert call("tool", str(path), "upsert", json.dumps({"documents": documents})).code == 0
    for words in (["search", "query=library", "mode=keyword"], ["list"]):
        with at_terminal(["tool", str(path), *words], folder=memory_path, columns=80, NO_COLOR="1") as terminal:
            assert terminal.ended() == 0
        lines = terminal.shown.split("\n")
        for end in ("docs/a.txt", "people/report of May.txt"):
            (line,) = [line for line in lines if f"{end} " in f"{line} " and " | " in line]
            assert len(line) <= 80
        assert "permissionId" not in terminal.shown
        assert len(lines[-2]) < 240, "what stands beside a table is short, whatever the store holds"
