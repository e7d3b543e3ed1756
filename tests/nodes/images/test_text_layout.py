"""Pieces of text become lines, and tables where they stand in columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.images.layout import TextBox, lines_of, tables_of, text_of


def box(text: str, left: float, top: float, width: float = 60, height: float = 20) -> TextBox:
    return TextBox(text, left, top, left + width, top + height)


def test_pieces_are_read_from_left_to_right_and_from_top_to_bottom() -> None:
    lines = lines_of([box("d", 100, 52), box("b", 100, 4), box("c", 0, 50), box("a", 0, 0)])
    assert text_of(lines) == "a b\nc d\n"


def test_rows_of_cells_below_each_other_are_a_table() -> None:
    head = [box("Name", 0, 0), box("Count", 200, 0)]
    rows = [box("Widget", 5, 40), box("12", 205, 41), box("Gad|get", 3, 80), box("7", 210, 79)]
    after = [box("A sentence that goes on below the table", 0, 140, width=500)]
    assert tables_of(lines_of([*head, *rows, *after])) == [
        "| Name | Count |\n| --- | --- |\n| Widget | 12 |\n| Gad\\|get | 7 |\n"
    ]


def test_a_cell_that_is_missing_is_empty() -> None:
    boxes = [box(f"{x}{y}", 100 * x, 40 * y) for y in range(3) for x in range(3) if (x, y) != (1, 1)]
    assert tables_of(lines_of(boxes)) == ["| 00 | 10 | 20 |\n| --- | --- | --- |\n| 01 |  | 21 |\n| 02 | 12 | 22 |\n"]


def test_prose_in_columns_and_single_lines_are_no_tables() -> None:
    prose = "These are words of a column of a newspaper, of which there are two"
    columns = [box(prose, x, y, width=400) for y in (0, 30, 60) for x in (0, 500)]
    assert tables_of(lines_of(columns)) == []
    assert tables_of(lines_of([box("left", 0, 0), box("right", 300, 0)])) == []
    assert tables_of(lines_of([box("one", 0, 0), box("two", 0, 40)])) == []
    assert tables_of([]) == []


BOXES = st.lists(
    st.builds(
        box, st.text("ab|\n", min_size=1, max_size=3), st.floats(0, 500), st.floats(0, 500), st.floats(1, 99), st.floats(1, 30)
    )
)


@given(BOXES)
def test_every_piece_is_in_one_line_and_in_one_cell_at_most(boxes: list[TextBox]) -> None:
    lines = lines_of(boxes)
    assert sorted(map(id, boxes)) == sorted(id(one) for line in lines for one in line)
    assert len(text_of(lines)) >= sum(len(one.text) for one in boxes)
    assert all(table.count("\n") >= 3 for table in tables_of(lines))
