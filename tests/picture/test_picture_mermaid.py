"""The Mermaid flowchart says all that there is, and no text of a file becomes syntax."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from picture_graphs import pictures

from rrext.picture.picture import Picture, PictureEdge, PictureNode, Remark
from rrext.picture.text import as_mermaid

NODE = re.compile(r'    n(\d+)(?:\(\[|\[\[|\[|\{\{)"([^"]*)"(?:\]\)|\]\]|\]|\}\})')
EDGE = re.compile(r'    n(\d+) (-->|-\.->)\|"([^"]*)"\| n(\d+)')


def lines(picture: Picture) -> list[str]:
    return as_mermaid(picture).splitlines()


@given(pictures())
def test_every_node_and_every_edge_has_a_line(picture: Picture) -> None:
    shown = lines(picture)
    nodes = [match for line in shown if (match := NODE.fullmatch(line))]
    edges = [match for line in shown if (match := EDGE.fullmatch(line))]
    assert [(int(match[1]), match[2].partition("<br/>")[0]) for match in nodes] == [
        (index, node.id) for index, node in enumerate(picture.nodes)
    ]
    arrows = {"-->": "data", "-.->": "control"}
    assert [PictureEdge(int(m[1]), int(m[4]), arrows[m[2]], tuple(m[3].split(", "))) for m in edges] == list(picture.edges)  # type: ignore[arg-type]


def test_it_is_a_flowchart_from_top_to_bottom() -> None:
    picture = Picture(
        (PictureNode("a", "chat", "Talk", "source"), PictureNode("b", "p")), (PictureEdge(0, 1, "data", ("text",)),)
    )
    assert lines(picture) == [
        "flowchart TD",
        '    n0(["a<br/>chat<br/>Talk"])',
        '    n1["b<br/>p"]',
        '    n0 -->|"text"| n1',
        "    classDef source fill:#dafbe1,stroke:#1a7f37,stroke-width:2px,color:#1f2328",
        "    class n0 source",
    ]


def test_what_is_wrong_has_classes_colours_and_comments() -> None:
    bad = (Remark("error", "unknown_provider", 'There is no node "{x}".', (3, 7)),)
    nodes = (PictureNode("a", "x", remarks=bad), PictureNode("gone", role="missing"), PictureNode("c", "x", remarks=bad))
    edges = (PictureEdge(1, 0, "data", ("text",)), PictureEdge(1, 2, "control", ("tool",), "error"))
    shown = lines(Picture(nodes, edges, bad))
    assert '    n0["✗ a<br/>x"]' in shown
    assert '    n1{{"gone<br/>no such component"}}' in shown
    assert '    n1 -.->|"✗ tool"| n2' in shown
    assert "    class n0,n2 error" in shown
    assert "    class n1 missing" in shown
    assert "    linkStyle 1 stroke:#cf222e" in shown
    assert shown[-1] == '    %% 3:7: error: There is no node "(x)". [unknown_provider]'


def test_the_name_is_a_title_that_no_text_breaks() -> None:
    shown = lines(Picture(name='a "b": {c}\n---\x1b'))
    assert shown[0] == shown[2] == "---"
    assert json.loads(shown[1].removeprefix("title: ")) == r'a "b": {c}\u000a---\u001b'
    assert shown[3:] == ["flowchart TD"]


@given(st.text(min_size=1))
def test_no_text_of_a_file_becomes_syntax(text: str) -> None:
    picture = Picture((PictureNode(text, text, text), PictureNode("b", text)), (PictureEdge(0, 1, "data", (text,)),))
    shown = lines(picture)
    assert len(shown) == 4
    assert all(line.isprintable() for line in shown)
    (first, second) = (NODE.fullmatch(line) for line in shown[1:3])
    edge = EDGE.fullmatch(shown[3])
    assert first is not None
    assert second is not None
    assert edge is not None
    for quoted in (first[2].replace("<br/>", ""), second[2].replace("<br/>", ""), edge[3]):
        assert not re.search(r"[<>&`%:\\]|#(?!(?:35|96|37|58|92|quot|amp|lt|gt);)", quoted)


def test_what_is_escaped_is_what_it_was() -> None:
    from html import unescape

    text = '#35; &amp; "q" <b> `c` %%{d}%% e:f \\n #quot;'
    (line,) = [line for line in lines(Picture((PictureNode(text, "p"),))) if line.startswith("    n0")]
    match = NODE.fullmatch(line)
    assert match is not None
    shown = re.sub(r"#(\w+);", lambda entity: f"&#{entity[1]};" if entity[1].isdecimal() else f"&{entity[1]};", match[2])
    assert unescape(shown.partition("<br/>")[0]) == text
