"""`rrext chat`: questions at a prompt, on stdin, or one on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_terminal import Terminal, at_terminal
from commands import EXAMPLES, call, component, here, pipeline, spawned, until

from rrext.cli.commands.calls.chat import ChatWatch, Conversation, LocalAsker
from rrext.cli.commands.calls.chat_display import ChatDisplay
from rrext.cli.console.keyboard import Keyboard
from rrext.cli.console.live_area import AboveArea, LiveArea, LiveText, end_of_blocks, plain
from rrext.client.chat_events import AgentBegun, ToolBegun, ToolEnded

CHAT = str(EXAMPLES / "chat.pipe")
OPEN = "The library is open from nine to five."
NODE = '''
import asyncio
import sys

from rrext import Node


class Memory(Node):
    """Says how many messages came before, fails and waits where it is asked to."""

    provider = "memory"
    lanes = {"questions": ("answers",)}

    async def write_questions(self, question):
        text = question["questions"][0]["text"]
        if text == "fail":
            raise ValueError("no such thing")
        if text == "wait":
            print("waiting", file=sys.stderr, flush=True)
            await asyncio.Event().wait()
        before = [f"{message['role']}: {message['content']}" for message in question["history"]]
        await self.emit("answers", {"answer": f"{text} after {len(before)}: {before[-1] if before else 'nothing'}"})
'''


GUIDE = '''
import asyncio
from pathlib import Path

from rrext import Node, RrextError, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo, TurnUsage


class Handy(Node):
    """Tools that wait for a file, and that need a permit."""

    provider = "handy"

    @tool_function
    async def look_up(self, city: str) -> str:
        """Look up a city."""
        while not Path("go").exists():
            await asyncio.sleep(0.01)
        return "open"

    @tool_function
    async def erase(self, path: str) -> bool:
        """Erase a file."""
        return True


class Guide(Node):
    """An agent by script."""

    provider = "guide"
    lanes = {"questions": ("answers",)}

    async def write_questions(self, question, *, ctx: ToolContext):
        steps, info, me = ctx.callbacks, CallInfo(tool="", node_id=self.node_id), self.node_id
        steps.agent_start(info, me)
        text = question["questions"][0]["text"]
        while text == "ask later" and not Path("go").exists():
            await asyncio.sleep(0.01)
        if text in ("ask", "ask later"):
            field = {"type": "integer", "title": "Number"}
            said = await ctx.ask({"message": "How many?", "requestedSchema": {"properties": {"n": field}}})
            await self.emit("answers", {"answer": f"{said['action']}: {said.get('content', {}).get('n')}"})
            return
        steps.agent_turn_start(info, me, 1)
        steps.agent_chunk(info, me, "I **look**.")
        steps.agent_turn_end(info, me, 1, TurnUsage(model="script", input_tokens=20, output_tokens=3, cost=0.25))
        for node, tool, given in (("handy_1", "look_up", {"city": "Oslo"}), ("tools_1", "erase_file", {"path": "a.txt"})):
            steps.agent_tool_call(info, me, tool, given)
            try:
                answer = await ctx.call(node, tool, given)
            except RrextError as error:
                answer = error.code
                steps.agent_tool_result(info, me, tool, None, error)
        steps.agent_tool_call(info, me, "fly", {})
        steps.agent_tool_result(info, me, "fly", None, ToolError("there is no such tool", code="no_tool"))
        said = f"It is **{answer}**.\\n\\n- one\\n- two{question.get('session', '')}"
        for place in range(0, len(said), 3):
            steps.agent_chunk(info, me, said[place : place + 3])
        steps.agent_end(info, me, None)
        await self.emit("answers", {"answer": said})
'''


@pytest.fixture
def guide(tmp_path: Path) -> str:
    (tmp_path / "guide_node.py").write_text(GUIDE)
    reference = {"type": "node", "node": "handy_1", "tool": "erase", "name": "erase_file", "permission": "ask"}
    tools = component("tools_1", "tools", tools=[reference])
    handy = {**component("handy_1", "handy"), "control": [{"classType": "tool", "from": "tools_1"}]}
    answers = component("a", "response_answers", "answers:guide_1")
    path = pipeline(tmp_path, component("c", "chat"), tools, handy, component("guide_1", "guide", "questions:c"), answers)
    document = json.loads(Path(path).read_text())
    document.pop("source", None)
    Path(path).write_text(json.dumps(document))
    return path


@pytest.fixture
def memory(tmp_path: Path) -> str:
    (tmp_path / "memory_node.py").write_text(NODE)
    answers = component("a", "response_answers", "answers:m", laneName="said")
    return pipeline(tmp_path, component("c", "chat"), component("m", "memory", "questions:c"), answers)


@contextmanager
def at_prompt(path: str, folder: Path) -> Iterator[Terminal]:
    with at_terminal(["chat", path, "--nodes", "memory_node.py"], folder=folder, NO_COLOR="1") as terminal:
        terminal.until("Ctrl-D ends the chat")
        terminal.until("chat>")
        yield terminal


def test_one_question_has_its_answer_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "chat", CHAT, "When are you open?")
    assert (done.code, done.out.decode(), done.err) == (0, f"{OPEN}\n", "")


def test_each_line_of_stdin_is_a_question(tmp_path: Path) -> None:
    done = call("chat", CHAT, stdin=b"hello\n\nWhen are you open?")
    assert (done.code, done.out.decode(), done.err) == (0, f"You said: hello\n{OPEN}\n", "")
    lines = call("chat", CHAT, "--json", stdin=b"hello\n").lines
    assert [(line["question"], line["result"]["answers"]) for line in lines] == [("hello", ["You said: hello"])]


def test_a_question_that_fails_is_reported_and_the_next_one_is_asked(memory: str, tmp_path: Path) -> None:
    words = ("chat", memory, "--nodes", "memory_node.py")
    done = call(*words, stdin=b"fail\nx\n", cwd=tmp_path)
    assert (done.code, done.out) == (1, b"x after 0: nothing\n")
    assert "no such thing" in done.err
    failed, fine = call(*words, "--json", stdin=b"fail\nx\n", cwd=tmp_path).lines
    assert "no such thing" in failed["error"]["message"]
    assert fine["result"]["said"] == ["x after 0: nothing"]


def test_questions_and_answers_go_with_the_next_question_until_a_new_chat(memory: str, tmp_path: Path) -> None:
    done = call("chat", memory, "--nodes", "memory_node.py", stdin=b"a\nb\n\\new\nc\n", cwd=tmp_path)
    assert done.out.decode().splitlines() == [
        "a after 0: nothing",
        "b after 2: assistant: a after 0: nothing",
        "c after 0: nothing",
    ]


def test_a_pipeline_that_takes_no_questions_is_told_so(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "chat", str(EXAMPLES / "echo.pipe"), "x")
    assert (done.code, "nothing takes questions" in done.err) == (2, True)


def test_of_several_sources_the_one_for_chats_takes_the_questions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = component("m", "llm_scripted", "questions:chat_1", default="It is {question}.")
    answers = component("a", "response_answers", "answers:m")
    pipeline(tmp_path, component("chat_1", "chat"), model, answers, component("d", "dropper"), name="both.pipe")
    document = json.loads((tmp_path / "both.pipe").read_text())
    del document["source"]
    (tmp_path / "both.pipe").write_text(json.dumps(document))
    both = str(tmp_path / "both.pipe")
    done = here(capfd, "chat", both, "so")
    assert (done.code, done.out) == (0, b"It is so.\n"), done
    assert here(capfd, "chat", both, "so", "--source", "chat_1").code == 0
    done = here(capfd, "chat", both, "so", "--source", "chat_2")
    assert (done.code, 'Did you mean "chat_1"?' in done.err) == (2, True)


def test_the_prompt_answers_keeps_its_history_and_ends_with_ctrl_d(memory: str, tmp_path: Path) -> None:
    with at_prompt(memory, tmp_path) as terminal:
        terminal.type("first question\r")
        terminal.until("first question after 0: nothing\n")
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0
    with at_prompt(memory, tmp_path) as terminal:
        terminal.type("\x1b[A")
        terminal.until("first question")
    assert (tmp_path / "state" / "rrext" / "chat_history").stat().st_mode & 0o777 == 0o600


def test_ctrl_c_ends_the_question_and_never_the_chat(memory: str, tmp_path: Path) -> None:
    with at_prompt(memory, tmp_path) as terminal:
        terminal.type("wait\r")
        terminal.until("waiting")
        terminal.until_lines_are_read()
        terminal.type("\x03")
        terminal.until("cancelled")
        terminal.until("chat>")
        terminal.type("half a question\x03")
        terminal.until("chat>")
        terminal.type("x\r")
        terminal.until("x after 0: nothing\n")
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_ctrl_c_ends_questions_of_a_pipe(memory: str, tmp_path: Path) -> None:
    path = str(tmp_path / "memory_node.py")
    with spawned("chat", memory, "--nodes", path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"wait\nx\n")
        process.stdin.flush()
        until(process.stderr, "waiting")
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
        process.stdin.close()


def test_without_its_package_lines_are_read_at_the_terminal(tmp_path: Path) -> None:
    with at_terminal(["chat", CHAT], folder=tmp_path, hidden="prompt_toolkit") as terminal:
        terminal.until("chat>")
        terminal.type("hello\r")
        terminal.until("You said: hello\n")
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_json_at_a_terminal_is_json(tmp_path: Path) -> None:
    with at_terminal(["chat", CHAT, "hello", "--json"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert json.loads(terminal.shown)["question"] == "hello"


@pytest.mark.promise("chat:terminal:live")
@pytest.mark.parametrize("hidden", ["", "rich"])
def test_a_terminal_shows_text_and_tools_as_they_come_and_asks_for_permits(guide: str, tmp_path: Path, hidden: str) -> None:
    words = ["chat", guide, "--nodes", "guide_node.py", "--source", "c"]
    with at_terminal(words, folder=tmp_path, hidden=hidden, NO_COLOR="1") as terminal:
        terminal.until("chat>")
        terminal.type("go\r")
        terminal.until("I look." if not hidden else "I **look**.")
        terminal.until('… look_up(city="Oslo")')
        (tmp_path / "go").touch()
        terminal.until('✓ look_up(city="Oslo") · ')
        terminal.until('The tool "erase_file" of "tools_1", called by "guide_1", needs a permit.')
        terminal.until('"path": "a.txt"')
        terminal.until("[y/n]")
        terminal.type("perhaps\r")
        terminal.until("[y/n]")
        terminal.type("y\r")
        terminal.until('✓ erase_file(path="a.txt") · ')
        terminal.until("✗ fly() · there is no such tool\n")
        terminal.until("- two\n" if hidden else " • two\n")
        assert "True" not in terminal.until("chat>"), "the answer was shown already, as it came"
        terminal.type("/trace\r")
        terminal.until("agent guide_1  ")
        terminal.until("─ turn 1  ")
        terminal.until("20 → 3 tokens  $0.25")
        assert "not ended" not in terminal.until("─ handy_1.look_up  ") + terminal.until("ms")
        terminal.until("no_tool: there is no such tool\n")
        assert "question" not in terminal.until("chat>"), "one tree for one question"
        terminal.type("/tools\r")
        terminal.until("look_up     Look up a city.  (handy_1)\n")
        terminal.until("chat>")
        terminal.type("again\r")
        terminal.until("[y/n]")
        terminal.type("\x03")
        terminal.until("cancelled")
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_a_question_of_a_tool_is_asked_at_the_terminal_and_ctrl_c_ends_it(guide: str, tmp_path: Path) -> None:
    words = ["chat", guide, "--nodes", "guide_node.py", "--source", "c"]
    with at_terminal(words, folder=tmp_path, NO_COLOR="1") as terminal:
        terminal.until("chat>")
        terminal.type("ask\r")
        terminal.until("How many?\n")
        terminal.until("Number: ")
        terminal.type("3\r")
        terminal.until("Send this? [y/n] ")
        terminal.type("y\r")
        terminal.until("accept: 3\n")
        terminal.until("chat>")
        terminal.type("ask\r")
        terminal.until("Number: ")
        terminal.type("\x03")
        terminal.until("cancelled")
        terminal.until("chat>")
        terminal.type("ask\r")
        terminal.until("Number: ")
        terminal.type("\r")
        terminal.until("Send this? [y/n] ")
        terminal.type("n\r")
        terminal.until("decline: None\n")
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_what_was_typed_before_a_question_does_not_answer_it(guide: str, tmp_path: Path) -> None:
    words = ["chat", guide, "--nodes", "guide_node.py", "--source", "c"]
    with at_terminal(words, folder=tmp_path, NO_COLOR="1") as terminal:
        terminal.until("chat>")
        terminal.type("ask later\r")
        terminal.until_lines_are_read()
        terminal.type("7\ry\r")
        terminal.until("y\n")
        (tmp_path / "go").touch()
        terminal.until("Number: ")
        terminal.type("3\r")
        terminal.until("Send this? [y/n] ")
        terminal.type("y\r")
        terminal.until("accept: 3\n")
        terminal.until("chat>")
        (tmp_path / "go").unlink()
        terminal.type("go\ry\r")  # the prompt reads both lines
        terminal.until("… look_up")
        terminal.type("y\r")  # and this one waits at the terminal
        terminal.until("y\n")
        (tmp_path / "go").touch()
        terminal.until("[y/n]")
        terminal.type("n\r")
        terminal.until('✗ erase_file(path="a.txt")\n')
        terminal.until("chat>")
        terminal.type("\x04")
        assert terminal.ended() == 0


@pytest.mark.promise("chat:terminal:live")
def test_a_chat_with_a_server_is_the_same_and_names_its_session(guide: str, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with spawned("serve", "--listen", "unix:s.sock", guide, "--nodes", "guide_node.py", cwd=tmp_path) as server:
        assert server.stderr is not None
        until(server.stderr, "listening at")
        words = ["chat", "--at", "unix:s.sock", "--source", "c", "--session", "mine"]
        with at_terminal([*words, "go"], folder=tmp_path, NO_COLOR="1") as terminal:
            terminal.until("[y/n]")
            terminal.type("n\r")
            terminal.until('✗ erase_file(path="a.txt")\n')
            terminal.until("it was denied\n")
            terminal.until("• twomine\n")
            assert terminal.ended() == 0
        done = call(*words, "go", "--events", "--json", cwd=tmp_path)
        assert done.lines[0]["result"]["answers"] == ["It is **unavailable**.\n\n- one\n- twomine"]
        kinds = [json.loads(line)["event"] for line in done.err.splitlines()]
        assert (kinds[0], kinds[-1], "tool_begun" in kinds) == ("agent_begun", "agent_ended", True)
        server.terminate()
        server.wait(30)


class Screen:
    """What was written to a terminal, by all streams in their order."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, data: bytes | str) -> int:
        self.written += data if isinstance(data, str) else data.decode()
        return len(data)


def test_what_nodes_print_meanwhile_stands_above_what_is_drawn_anew() -> None:
    screen: Any = Screen()
    area = LiveArea(screen)
    area.draw(["running"])
    print("a line", file=AboveArea(screen, area))
    area.draw(["running"])
    area.put(["done"])
    erase = "\x1b[1F\x1b[J"
    assert screen.written == f"running\n{erase}a line\nrunning\n{erase}done\n"


def test_a_long_text_is_drawn_in_time_by_its_length_and_finished_blocks_are_never_torn() -> None:
    text = LiveText(plain)
    blocks = [f"Block {number}\nhas two lines." for number in range(200)] + ["```\na\n\nb\n```"] * 3
    whole = "\n\n".join(blocks)
    finished: list[str] = []
    drawn = 0
    for place in range(0, len(whole), 5):
        finished += text.add(whole[place : place + 5])
        drawn += sum(map(len, text.last))
    finished += text.end()
    assert "\n".join(finished) == whole
    assert drawn < 20 * len(whole)
    assert end_of_blocks("a\n\n~~~\n\n") == (len("a\n\n"), len("a\n\n"))
    assert end_of_blocks("a\n\n~~~\n\n~~~") == (len("a\n\n"), -1)


def test_a_long_block_is_drawn_by_the_height_of_the_screen_and_shown_whole_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setenv("COLUMNS", "80")
    rendered: list[str] = []

    def render(text: str, width: int) -> list[str]:
        rendered.append(text)
        return plain(text, width)

    text = LiveText(render)
    assert text.add("Code:\n```python\n") == []
    code = [f"line {number}" for number in range(600)]
    for line in code:
        assert text.add(f"{line}\n") == []
        assert line in text.last
    assert max(each.count("\n") for each in rendered) <= 21
    assert rendered[-1].startswith("```python\nline 581\n")
    rendered.clear()
    text.add("```\n")
    assert text.last[-3:] == ["line 599", "```", ""]
    assert text.end() == ["Code:", "```python", *code, "```"]
    assert text.add("- a\n" * 1_000) == []
    assert text.last[-2:] == ["- a", ""]
    assert len(text.last) == 20
    assert text.add("\n") == ["- a"] * 1_000
    text.add("word " * 10_000)
    assert text.end()
    assert rendered == []


async def test_names_of_models_and_servers_never_reach_the_terminal_as_they_are() -> None:
    class Asker(LocalAsker):
        def __init__(self) -> None:
            """A server that names its tools as it likes."""

        async def tools(self) -> list[dict[str, Any]]:
            return [{"name": "look\x1b[2J", "description": "a\nb", "nodeId": "n\x07\ud800"}]

    screen: Any = Screen()
    screen.is_terminal = True
    display = ChatDisplay(screen, as_markdown=False)
    fields: dict[str, Any] = {"time": 1.0, "call": 2, "caller": 1, "missed": 0, "depth": 0}
    name = "fly\x1b]52;c;eA==\x07"
    display.turn += [AgentBegun(agent="a\x1b[3J", **fields), ToolBegun(tool=name, **fields), ToolEnded(tool=name, **fields)]
    questions = iter(["/tools", "/trace", None])

    async def read() -> str | None:
        return next(questions)

    watch = ChatWatch(display, None, tells=False)
    await Conversation(Asker(), screen, Keyboard(), watch, session=None, as_json=False).run(read)
    assert r"look\u001b[2J  a\u000ab  (n\u0007\ud800)" in screen.written
    assert r"a\u001b[3J" in screen.written
    assert r"fly\u001b]52;c;eA==\u0007" in screen.written
    assert screen.written.replace("\n", "").isprintable()
