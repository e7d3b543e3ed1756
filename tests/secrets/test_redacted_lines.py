"""Lines of two threads on a redacted stream."""

from __future__ import annotations

from io import StringIO
from threading import Thread

from rrext.secrets.redaction import RedactedStream, Redactor


def test_the_line_of_one_thread_is_not_mixed_with_that_of_another() -> None:
    out = StringIO()
    stream = RedactedStream(out, Redactor())
    stream.write("the first half, ")
    other = Thread(target=stream.write, args=("the line of another\n",))
    other.start()
    other.join()
    stream.write("and the second\n")
    assert out.getvalue() == "the line of another\nthe first half, and the second\n"


def test_an_unfinished_line_is_written_by_flush_and_at_the_end() -> None:
    out = StringIO()
    stream = RedactedStream(out, Redactor())
    stream.write("asked: ")
    assert out.getvalue() == ""
    stream.flush()
    assert out.getvalue() == "asked: "
    stream.write("never ended")
    stream.end()
    assert out.getvalue() == "asked: never ended"
