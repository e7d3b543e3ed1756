"""`rrext test`: cases beside a pipeline, run as a newcomer runs them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import ROOT, InProcess, call, component, pipeline, spawned, until

DESK = ROOT / "tests" / "testing" / "case_nodes.py"
ADD = {"tool": "add", "input": {"a": 1, "b": 2}}
SUM = {"sum": 3, "at": {"$pattern": "^2026-"}}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A pipeline, `pipeline.pipe`, with the desk between a source and a response."""
    parts = component("w", "webhook"), component("d", "desk", "text:w", control="w"), component("r", "response_text", "text:d")
    return Path(pipeline(tmp_path, *parts))


def write(path: Path, *cases: dict[str, Any]) -> Path:
    """The file of the cases of a pipeline."""
    file = path.with_suffix(".cases.json")
    file.write_text(json.dumps({"cases": cases}))
    return file


def case(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, **members}


def test_what_passes_and_what_fails_is_told_and_counted(run: InProcess, desk: Path):
    write(desk, case("adds", **ADD, expect=SUM), case("adds badly", **ADD, expect={"sum": 4, "at": "2026-11-29"}))
    done = run("test", desk, "--nodes", DESK)
    lines = done.out.decode().splitlines()
    assert done.code == 1
    assert [line.split(" (")[0].strip() for line in lines[1:4]] == [
        "passed  adds",
        "failed  adds badly",
        "/sum: expected 4, got 3",
    ]
    assert lines[-1].startswith("1 passed, 1 failed in ")
    assert done.err == "adding\nadding\n"


def test_a_file_whose_cases_pass_ends_with_0(run: InProcess, desk: Path):
    write(
        desk,
        case("adds", **ADD, expect=SUM),
        case("a number is missing", tool="add", input={"a": 1}, error="invalid_arguments"),
        case(
            "with words",
            tool="ad",
            error={"code": "tool_not_found", "message": {"$pattern": 'mean "add"'}, "data": {"near": ["add"]}},
        ),
        case("does not fail", **ADD),
        case("bytes", tool="photo", expect="AP8="),
        case("a lane", lane="text", input="hello", expect={"text": ["HELLO\n\n"]}),
        case("a file", lane="text", input={"$file": "in.txt"}, expect={"text": [{"$pattern": "^FROM"}]}),
    )
    (desk.parent / "in.txt").write_text("from a file")
    done = run("test", desk, "--nodes", DESK)
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (case("c", **ADD, error="invalid_arguments"), 'expected the error "invalid_arguments", got a result'),
        (case("c", tool="add", error="tool_not_found"), '/error/code: expected "tool_not_found", got "invalid_arguments"'),
        (case("c", tool="adds"), 'failed: No handler found for tool "adds". Did you mean "add"? [tool_not_found]'),
        (case("c", tool="hang", timeout=0.2), "was not answered within 0.2 s"),
        (case("c", lane="text", input={"$file": "none.txt"}), "none.txt: No such file or directory"),
        (case("c", lane="text", input={"$file": "../../../../../etc/passwd"}), "is not below the folder of the cases"),
        (case("c", lane="text", input={"$file": "."}), "is not below the folder of the cases"),
        (case("c", lane="text", input={"$file": "fifo"}), "fifo is no file"),
        (
            case("c", **ADD, stub={"e": {"tools": {}}}),
            'There is no node "e" to stand in for. [node_not_found]',
        ),
        (case("c", **ADD, stub={"d": {"tools": {"adds": 1}}}), 'The node "desk" has no tool "adds". Did you mean "add"?'),
        (case("c", **ADD, stub={"d": {"default": "x"}}), 'node "d" (desk) is no model'),
    ],
)
def test_a_case_that_goes_another_way_fails_and_says_how(run: InProcess, desk: Path, wrong: dict[str, Any], words: str):
    write(desk, wrong, case("the next one runs", **ADD, expect=SUM))
    os.mkfifo(desk.parent / "fifo")
    done = call("test", str(desk), "--nodes", str(DESK)) if "timeout" in wrong else run("test", desk, "--nodes", DESK)
    assert done.code == 1
    assert words in done.out.decode()
    assert "passed  the next one runs" in done.out.decode()


def test_a_stand_in_answers_for_a_node_that_cannot_run_here(run: InProcess, tmp_path: Path):
    locked = component("d", "desk", control="w", key="${ROCKETRIDE_NO_KEY}")
    desk = Path(pipeline(tmp_path, component("w", "tools"), locked))
    stub = {"d": {"tools": {"add": {"sum": 7}, "tell": {"$error": {"code": "no_key", "message": "There is no key."}}}}}
    write(
        desk,
        case("without it", **ADD),
        case("with it", **ADD, expect={"sum": 7}, stub=stub),
        case("its input is checked as that of the node", tool="add", input={"a": "x"}, error="invalid_arguments", stub=stub),
        case("it fails", tool="tell", error={"code": "no_key", "message": "There is no key."}, stub=stub),
    )
    done = run("test", desk, "--nodes", DESK)
    verdicts = [line.split()[0] for line in done.out.decode().splitlines() if line.startswith("  ") and line[2] != " "]
    assert verdicts == ["failed", "passed", "passed", "passed"], done.out
    assert "[unresolved_variable]" in done.out.decode()


def test_a_stand_in_speaks_on_lanes_and_for_a_model(run: InProcess, tmp_path: Path):
    chat = pipeline(
        tmp_path,
        component("c", "chat"),
        component("m", "llm_openai", "questions:c", apikey="${ROCKETRIDE_NO_KEY}"),
        component("r", "response_answers", "answers:m"),
    )
    write(
        Path(chat),
        case("by a script", lane="questions", input="When?", expect={"answers": ["At nine."]},
             stub={"m": {"script": [{"match": "when", "answer": "At nine."}]}}),
        case("by its default", lane="questions", input="When?", expect={"answers": ["Soon."]},
             stub={"m": {"default": "Soon."}}),
        case("as a node of its lanes", lane="questions", input="When?", expect={"answers": ["Never."]},
             stub={"m": {"lanes": {"questions": {"answers": "Never."}}}}),
    )  # fmt: skip
    done = run("test", chat)
    assert done.code == 0, done.out


def test_an_update_writes_what_came_and_the_next_run_passes(run: InProcess, desk: Path):
    file = write(
        desk, case("new", **ADD), case("old", **ADD, expect={"sum": 4, "at": {"$pattern": "^2026"}}), case("bad", tool="x")
    )
    done = run("test", desk, "--nodes", DESK, "--update")
    assert done.code == 1
    assert done.out.decode().splitlines()[-1].startswith("2 updated, 1 failed")
    new, old, bad = json.loads(file.read_text())["cases"]
    assert (new["expect"], old["expect"]) == ({"sum": 3, "at": "2026-11-29"}, {"sum": 3, "at": {"$pattern": "^2026"}})
    assert "expect" not in bad
    assert run("test", desk, "--nodes", DESK, "-k", "new").code == 0


def test_words_choose_cases_and_none_is_an_error(run: InProcess, desk: Path):
    write(desk, case("adds", **ADD), case("tells", tool="tell"))
    assert run("test", desk, "--nodes", DESK, "-k", "tel").out.decode().splitlines()[-1].startswith("1 passed")
    done = run("test", desk, "--nodes", DESK, "-k", "none of them")
    assert (done.code, done.out.decode().partition(" in ")[0]) == (2, "no case was run")


def test_cases_that_expect_nothing_are_counted(run: InProcess, desk: Path):
    write(desk, case("adds", **ADD, expect=SUM), case("tells", tool="tell"))
    assert ", 1 without an expectation in " in run("test", desk, "--nodes", DESK).out.decode().splitlines()[-1]


def test_wrong_files_are_told_and_the_others_run(run: InProcess, desk: Path, tmp_path: Path):
    write(desk, case("adds", **ADD, expect=SUM))
    other = tmp_path / "other.cases.json"
    (tmp_path / "other.pipe").write_text("{}")
    other.write_text('{"cases": [\n  {"name": "a", "tol": "add"}]}')
    done = run("test", desk, other, "--nodes", DESK)
    out = done.out.decode()
    assert done.code == 2
    assert f'{other}:2:17: error: /cases/0/tol: unexpected property "tol": did you mean "tool"? [invalid_cases]' in out
    assert out.splitlines()[-1].startswith("1 passed, 1 file wrong")
    other.write_text('{"cases": [{"name": "a", "tool": "add", "arguments": {}}]}')
    assert 'unexpected property "arguments": a case has name, tool, node,' in run("test", other, "--nodes", DESK).out.decode()
    done = run("test", tmp_path / "othr.pipe")
    assert done.code == 2
    assert done.err == f"rrext: {tmp_path}/othr.pipe: No such file or directory. Did you mean {tmp_path}/other.pipe?\n"
    (tmp_path / "none.pipe").write_text("{}")
    done = run("test", tmp_path / "none.pipe")
    assert (done.code, "none.pipe has no cases" in done.err) == (2, True)


def test_a_report_in_junits_form_has_each_case(run: InProcess, desk: Path, tmp_path: Path):
    write(desk, case("adds", **ADD), case("fails \x01 & <b>", **ADD, expect=1))
    report = tmp_path / "report.xml"
    assert run("test", desk, "--nodes", DESK, "--junit", report).code == 1
    (suite,) = ElementTree.fromstring(report.read_bytes())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [(each.get("name"), [child.tag for child in each]) for each in suite] == [
        ("adds", []),
        ("fails \ufffd & <b>", ["failure"]),
    ]
    assert (suite[1][0].text or "").startswith("the result: expected 1, got")
    warned = tmp_path / "warned.pipe"
    warned.write_bytes(desk.read_bytes())
    write(warned, case("w", **ADD, expect={"$patern": 1}))
    assert run("test", desk, warned, "--nodes", DESK, "--junit", report, "-k", "adds").code == 0
    assert [each.tag for each in ElementTree.fromstring(report.read_bytes()).iter()] == ["testsuites", "testsuite", "testcase"]
    done = run("test", desk, "--nodes", DESK, "--junit", tmp_path / "no" / "report.xml")
    assert (done.code, "No such file" in done.err) == (2, True)


def test_no_secret_of_the_pipeline_is_told(tmp_path: Path):
    desk = Path(pipeline(tmp_path, component("w", "tools"), component("d", "desk", control="w", key="${ROCKETRIDE_KEY}")))
    write(desk, case("tells", tool="tell", expect="other"))
    done = call("test", str(desk), "--nodes", str(DESK), ROCKETRIDE_KEY="planted-secret-31ab77")
    assert done.code == 1
    assert b"planted-secret" not in done.out
    assert "planted-secret" not in done.err
    assert b"the result: expected" in done.out


def test_no_secret_is_written_by_an_update(tmp_path: Path):
    desk = Path(pipeline(tmp_path, component("w", "tools"), component("d", "desk", control="w", key="${ROCKETRIDE_KEY}")))
    file = write(desk, case("tells", tool="tell"), case("adds", **ADD))
    done = call("test", str(desk), "--nodes", str(DESK), "--update", ROCKETRIDE_KEY="planted-secret-31ab77")
    assert done.code == 1
    assert b"the result holds a secret, and is not written" in done.out
    assert "planted-secret" not in file.read_text()
    assert [list(each) for each in json.loads(file.read_text())["cases"]] == [
        ["name", "tool"],
        ["name", "tool", "input", "expect"],
    ]


@pytest.mark.parametrize(
    "text", ['{"components": 5}', '{"components": [{"id": ["a"], "provider": "desk"}]}', '{"components": [{}]}']
)
def test_a_broken_pipeline_fails_its_cases_also_those_with_stand_ins(run: InProcess, tmp_path: Path, text: str):
    (tmp_path / "p.pipe").write_text(text)
    write(tmp_path / "p.pipe", case("a", **ADD, stub={"a": {"tools": {"add": 1}}}), case("b", **ADD))
    done = run("test", tmp_path / "p.pipe", "--nodes", DESK)
    assert done.code == 1
    assert done.out.decode().count("[invalid_pipeline]") == 2
    assert done.out.decode().splitlines()[-1].startswith("2 failed")


def test_names_and_results_forge_no_lines(run: InProcess, desk: Path):
    write(desk, case("fine\x1b[31m\n  passed  forged", tool="no\x1b]0;x\x07"))
    out = run("test", desk, "--nodes", DESK).out
    assert b"\x1b" not in out
    assert out.count(b"\n  passed") == 0


def test_a_file_that_is_named_twice_runs_once(run: InProcess, desk: Path):
    write(desk, case("adds", **ADD))
    done = run("test", desk, desk.with_suffix(".cases.json"), "--nodes", DESK, "--update")
    assert (done.code, done.out.decode().splitlines()[-1].partition(" in ")[0]) == (0, "1 updated")


def test_pipelines_run_beside_each_other_and_are_told_in_their_order(run: InProcess, desk: Path, tmp_path: Path):
    names = ["b", "a", "c"]
    for name in names:
        (tmp_path / f"{name}.pipe").write_bytes(desk.read_bytes())
        write(tmp_path / f"{name}.pipe", case(f"adds {name}", **ADD, expect=SUM))
    done = run("test", *(tmp_path / f"{name}.pipe" for name in names), "--nodes", DESK, "-j", "3")
    assert done.code == 0
    assert [line.split()[2] for line in done.out.decode().splitlines() if "passed  adds" in line] == names


def test_ctrl_c_ends_a_case_that_hangs(desk: Path):
    write(desk, case("adds", **ADD), case("hangs", tool="hang"))
    with spawned("test", str(desk), "--nodes", str(DESK)) as process:
        assert process.stderr is not None
        until(process.stderr, "hanging")  # what had run before is counted
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout is not None
        lines = process.stdout.read().decode().splitlines()
        assert [line.split(" (")[0].split() for line in lines[1:-1]] == [["passed", "adds"]]
        assert lines[-1] == "cancelled: 1 passed, 1 without an expectation"
