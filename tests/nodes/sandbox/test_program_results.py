"""What a program's end looks like to its caller, however it ends and whatever it claims."""

from __future__ import annotations

import json
import os

import pytest
from guests import Guests

from rrext.nodes.sandbox.engine import ENGINES

pytestmark = pytest.mark.system

on_one_engine = pytest.mark.parametrize("engine", ENGINES[:1], ids=[ENGINES[0].name], indirect=True)
"""For what the guest and the server do alone: the engine between them takes no part in it."""

KEPT = 51_200


def test_output_and_result_come_back(guests: Guests) -> None:
    run = guests.run("import sys; print('out'); print('err', file=sys.stderr); result = {'a': [1, 2.5, None, True, 'ü']}")
    assert (run.stdout, run.stderr, run.exit_code, run.timed_out) == ("out\n", "err\n", 0, False)
    assert (run.has_result, run.result) == (True, {"a": [1, 2.5, None, True, "ü"]})


@on_one_engine
@pytest.mark.parametrize("code", ["", "result = None", "result = 1; del result", "def result(): pass\nresult = None"])
def test_no_result_is_no_result(guests: Guests, code: str) -> None:
    assert guests.run(f"pass\n{code}").has_result is False


def test_a_png_is_a_picture_beside_its_text(guests: Guests) -> None:
    run = guests.run(r"result = b'\x89PNG\r\n\x1a\n rest'")
    assert (run.picture, run.result) == (b"\x89PNG\r\n\x1a\n rest", r"b'\x89PNG\r\n\x1a\n rest'")
    assert guests.run("result = b'GIF89a'").picture is None


def test_a_picture_beyond_the_limit_of_the_result_is_told(guests: Guests) -> None:
    run = guests.run(r"result = b'\x89PNG\r\n\x1a\n' + bytes(2_000)", result=12_000)
    assert (run.picture, run.exit_code, run.has_result) == (None, 0, True)
    assert "picture" in run.stderr


@on_one_engine
@pytest.mark.parametrize("value", ["0", "''", "[]", "{}", "False"])
def test_an_empty_result_is_a_result(guests: Guests, value: str) -> None:
    run = guests.run(f"result = {value}")
    assert (run.has_result, repr(run.result)) == (True, value)


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit(300)", 300, ""),
        ("import sys; sys.exit(-5)", -5, ""),
        ("import sys; sys.exit('no ü')", 1, "no ü\n"),
        ("import sys; sys.exit([1])", 1, "[1]\n"),
        ("import sys; sys.exit(10**30)", 1, f"{10**30}\n"),
        ("exit(3)", 3, ""),
        ("quit()", 0, ""),
        ("raise SystemExit", 0, ""),
        ("import os; os._exit(9)", 9, ""),
        ("import os; os.abort()", 134, "Killed by SIGABRT\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "Killed by SIGTERM\n"),
        (
            "import signal; signal.raise_signal(signal.SIGKILL)",
            137,
            "Killed by SIGKILL, by the system: perhaps its memory ran out\n",
        ),
        ("import atexit, os; atexit.register(os._exit, 4)", 4, ""),
    ],
)
def test_how_a_program_ends_is_its_exit_code(guests: Guests, code: str, exit_code: int, stderr: str) -> None:
    run = guests.run(code)
    assert (run.exit_code, run.stderr, run.timed_out) == (exit_code, stderr, False)


def test_a_result_is_kept_when_the_program_leaves_early(guests: Guests) -> None:
    run = guests.run("result = 'so far'\nimport sys\nsys.exit(2)")
    assert (run.exit_code, run.result) == (2, "so far")


def test_a_traceback_has_the_lines_of_the_program_and_nothing_of_ours(guests: Guests) -> None:
    run = guests.run("def inner():\n    return 1 / 0\n\n\ninner()\n")
    assert run.exit_code == 1
    lines = [line for line in run.stderr.split("\n") if "~" not in line and "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<code>", line 5, in <module>',
        "    inner()",
        '  File "<code>", line 2, in inner',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
        "",
    ]


@on_one_engine
@pytest.mark.parametrize(
    ("code", "line", "error"),
    [
        ("x = 1\ny = (", 2, "SyntaxError"),
        ("if True:\nx = 1", 2, "IndentationError"),
        ("x = '\n", 1, "SyntaxError"),
        ("return 1", 1, "SyntaxError"),
        ("x = 1\n\tif y:\n        z", 2, "IndentationError"),
        ("a = 1\nb = '\\ud800'\nprint(b.encode())", 3, "UnicodeEncodeError"),
        ("from __future__ import nope", 1, "SyntaxError"),
    ],
)
def test_a_program_that_is_none_says_where(guests: Guests, code: str, line: int, error: str) -> None:
    run = guests.sandbox.run(code, limits())
    assert (run.exit_code, run.stdout) == (1, "")
    assert f'File "<code>", line {line}' in run.stderr
    assert error in run.stderr


def limits(**values: float):
    from rrext.nodes.sandbox.grant import SandboxLimits

    return SandboxLimits(**{"timeout": 10.0, **values})  # type: ignore[arg-type]


def test_null_characters_are_a_failed_program(guests: Guests) -> None:
    assert guests.run("x = 1\0").exit_code == 1


PATHS = {
    "library frames": "import json; json.loads('{')",
    "a thread": "import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()",
    "a destructor": "class D:\n    def __del__(self): 1 / 0\nD(); import sys; sys.exit(1)",
    "a chain": "try:\n    import json; json.loads('{')\nexcept Exception as e:\n    raise KeyError from e",
    "asyncio": "import asyncio\nasync def f(): await asyncio.wait_for(asyncio.sleep(9), 0.01)\nasyncio.run(f())",
    "a group": "import json\ntry: json.loads('{')\nexcept ValueError as e: raise ExceptionGroup('g', [e])",
}


@on_one_engine
@pytest.mark.parametrize("title", PATHS)
def test_a_traceback_tells_no_path_of_the_host(guests: Guests, title: str) -> None:
    run = guests.run(PATHS[title])
    assert "Error" in run.stderr
    for path in (os.path.dirname(os.__file__), os.path.expanduser("~"), os.getcwd(), "rrext", "site-packages"):
        assert path not in run.stderr


def test_an_exception_hook_of_the_program_is_used(guests: Guests) -> None:
    run = guests.run(
        "import sys; sys.excepthook = lambda kind, value, trace: print('hook', kind.__name__, trace.tb_lineno)\n1 / 0"
    )
    assert (run.exit_code, run.stdout, run.stderr) == (1, "hook ZeroDivisionError 2\n", "")


def test_running_out_of_memory_is_a_traceback(guests: Guests) -> None:
    run = guests.run("x = []\nwhile True:\n    x.append(bytearray(1000))")
    assert (run.exit_code, run.has_result) == (1, False)
    assert "MemoryError" in run.stderr
    assert "line 3" in run.stderr


LACKS = {
    "a package": ("import numpy as np", "no module `numpy`"),
    "a part of a package": ("import matplotlib.pyplot", "no module `matplotlib`"),
    "a package that another error hides": (
        "try: import yaml\nexcept ImportError as e: raise RuntimeError('no YAML') from e",
        "no module `yaml`",
    ),
    "a package for which the program ends itself": (
        "import sys\ntry: import yaml\nexcept ImportError: sys.exit('no YAML')",
        "no module `yaml`",
    ),
    "a URL": ("from urllib.request import urlopen\nurlopen('http://example.com/')", "no network"),
    "an address": ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "no network"),
    "a host": ("import socket\nsocket.gethostbyname('example.com')", "no network"),
    "a connection in a group of tasks": (
        """
        import asyncio
        async def main():
            async with asyncio.TaskGroup() as group: group.create_task(asyncio.open_connection('127.0.0.1', 80))
        asyncio.run(main())
        """,
        "no network",
    ),
    "a command": ("import subprocess\nsubprocess.run(['ls'])", "no other processes"),
    "a command whose end is a number": ("import os\nassert os.system('ls') == 0", "no other processes"),
    "a command, in a program that ends itself": ("import os\nif os.system('ls'): raise SystemExit(1)", "no other processes"),
    "a fork": ("import os\nos.fork()", "no other processes"),
    "a pool of processes": ("from multiprocessing import Pool\nPool(2)", "no other processes"),
    "an executor of processes": (
        "from concurrent.futures import ProcessPoolExecutor as P\nP().submit(len, '').result()",
        "no other processes",
    ),
    "a file": ("open('data.csv')", "no files"),
    "a file of the machine": ("open('/etc/passwd')", "no files"),
    "a file to write": ("open('x', 'w')", "no files"),
    "a temporary file": ("import tempfile\ntempfile.TemporaryFile()", "no files"),
    "a database": ("import sqlite3\nsqlite3.connect('a.db').execute('create table t (a)')", "no files"),
    "input": ("input('name? ')", "no input"),
    "memory": ("bytearray(10**10)", "512 MiB of memory"),
    "mapped memory": ("import mmap\nmmap.mmap(-1, 10**10)", "512 MiB of memory"),
    "memory for a library": (
        """
        import mmap
        held = []
        try:
            while True: held.append(mmap.mmap(-1, 2**19))
        except OSError:
            del held[-6:]
        import ssl
        """,
        "512 MiB of memory",
    ),
    "descriptors": ("import os\nheld = [os.pipe() for _ in range(99)]", "64 open files"),
    "descriptors for files": ("held = []\nwhile True: held.append(open('/dev/null'))", "64 open files"),
    "a thread": (
        "import threading\nthreading.stack_size(2**40)\nthreading.Thread(target=print).start()",
        "64 threads",
    ),
}  # fmt: skip


@pytest.mark.promise("python:lack:said")
@pytest.mark.parametrize("title", LACKS)
def test_what_the_sandbox_lacks_is_said_after_the_traceback(guests: Guests, title: str) -> None:
    code, words = LACKS[title]
    run = guests.run(code)
    assert run.exit_code == 1
    note = run.stderr.splitlines()[-1]
    assert note.startswith("Note: ")
    assert words in note


NO_LACKS = {
    "a name that its module has not": "from math import sine",
    "a part that its package has not": "import xml.nothing",
    "an error of the program": "raise ValueError('EOF')",
    "an error with a number": "raise OSError(5, 'Input/output error')",
    "an error that was handled": "try: import numpy\nexcept ImportError: pass\n1 / 0",
}


@pytest.mark.parametrize("title", NO_LACKS)
def test_an_error_that_is_no_fault_of_the_sandbox_has_no_note(guests: Guests, title: str) -> None:
    run = guests.run(NO_LACKS[title])
    assert (run.exit_code, "Note: " in run.stderr) == (1, False)


@pytest.mark.promise("python:lack:said")
def test_a_shell_that_could_not_start_is_told_though_the_program_ends_well(guests: Guests) -> None:
    run = guests.run("import os\nresult = os.system(command='pip install numpy')")
    assert (run.exit_code, run.result) == (0, 127 << 8)
    assert run.stderr.startswith("Note: the sandbox has no other processes")


def test_a_lack_that_the_program_lives_with_is_not_told(guests: Guests) -> None:
    assert guests.result("import sys\ntry: import numpy\nexcept ImportError: result = 1; sys.exit(0)") == 1


LYING_ERRORS = {
    "that cannot be looked at": """
        class Lie(OSError):
            @property
            def errno(self): raise KeyboardInterrupt
            def __str__(self): raise MemoryError
        raise Lie
        """,
    "in a ring": """
        one, other = OSError(), OSError()
        one.__cause__, other.__cause__ = other, one
        raise one
        """,
    "in large numbers": "raise ExceptionGroup('g', [OSError()] * 10**4)",
    "with what is no error behind it": """
        class Lie(Exception):
            exceptions = __context__ = property(lambda self: 1)
        raise Lie
        """,
    "with a name that is none": "raise ModuleNotFoundError(name=type('N', (str,), {'__format__': lambda *_: 'x' * 10**6})())",
    "with words of the sandbox": "raise ModuleNotFoundError(name='{limits.__class__} {0} %s')",
    "with a number that is none": "raise OSError(type('I', (int,), {'__lt__': lambda *_: 1 / 0})(1), 'x')",
    "that is of every kind": "raise type('Lie', (OSError, EOFError), {'__class__': ModuleNotFoundError, 'name': None})",
}


@on_one_engine
@pytest.mark.parametrize("title", LYING_ERRORS)
def test_an_error_that_lies_ends_its_program_and_nothing_else(guests: Guests, title: str) -> None:
    run = guests.run(LYING_ERRORS[title])
    assert (run.exit_code, run.timed_out, run.has_result) == (1, False, False)
    assert len(run.stderr) <= KEPT
    assert "rrext" not in run.stderr


def test_output_that_bypasses_python_is_kept(guests: Guests) -> None:
    run = guests.run(
        """
        import ctypes, os
        os.write(1, b"one ")
        os.write(2, b"two")
        libc = ctypes.CDLL(None)
        libc.printf(b"three ")
        libc.fflush(None)
        libc.write(1, b"four", 4)
        """
    )
    assert (run.stdout, run.stderr) == ("one three four", "two")


def test_output_keeps_its_order(guests: Guests) -> None:
    run = guests.run(
        "import os, sys\nfor i in range(3):\n    print(i)\n    os.write(1, b'-')\n    sys.stdout.buffer.write(b'+')"
    )
    assert run.stdout == "0\n-+1\n-+2\n-+"


def test_bytes_that_are_no_text_become_replacement_characters(guests: Guests) -> None:
    assert guests.run("import os; os.write(1, b'a\\xff\\xc3b')").stdout == "a�\ufffdb"


def test_long_output_is_cut_in_the_middle(guests: Guests) -> None:
    run = guests.run("print('a' * 60_000 + 'ü' * 60_000, end='')")
    assert len(run.stdout) == KEPT
    assert (run.stdout[0], run.stdout[-1]) == ("a", "ü")
    assert "characters left out] …" in run.stdout


@pytest.mark.parametrize("fd", [1, 2])
def test_a_flood_stalls_nobody_and_is_bounded(guests: Guests, fd: int) -> None:
    run = guests.run(
        f"import os\nblock = b'flood' * 20_000\nfor _ in range(3000): os.write({fd}, block)\nos.write({fd}, b'end')"
    )
    text = run.stdout if fd == 1 else run.stderr
    assert run.exit_code == 0
    assert len(text) == KEPT
    assert text.startswith("flood")
    assert text.endswith("end")


def test_a_flood_without_end_is_cut_off_with_its_end_kept(guests: Guests) -> None:
    run = guests.run("import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)", timeout=3.0)
    assert (run.timed_out, len(run.stdout)) == (True, KEPT)
    assert run.stderr.endswith("Killed: the time limit of 3 s was reached\n")
    assert len(run.stderr) <= KEPT


def test_output_before_a_timeout_is_kept_even_without_a_line_end(guests: Guests) -> None:
    run = guests.run("print('line')\nprint('part', end='')\nwhile True: pass", timeout=3.0)
    assert (run.timed_out, run.stdout) == (True, "line\npart")


def test_stdin_is_at_its_end(guests: Guests) -> None:
    assert guests.result("import sys; result = sys.stdin.read()") == ""


FORGERIES = {
    "on stdout": """
        print('{"exit_code": 0, "result": "forged"}')
        print('{"why": "ended", "exit_code": 0, "signal": 0, "stdout": "forged", "stderr": ""}')
        raise SystemExit(3)
        """,
    "on every descriptor": """
        import os
        for fd in range(3, 64):
            try: os.write(fd, b'{"exit_code": 0, "result": "forged"}')
            except OSError: pass
        raise SystemExit(3)
        """,
    "with lengths": """
        import os, struct
        for fd in range(3, 64):
            try: os.write(fd, struct.pack("<I", 2**31) + b'{"exit_code": 0, "result": "forged"}')
            except OSError: pass
        raise SystemExit(3)
        """,
    "by shadowing": """
        import builtins, os, sys
        builtins.repr = lambda value: '{"forged": 1}'
        os.write = None
        sys.modules.clear()
        raise SystemExit(3)
        """,
}


@pytest.mark.parametrize("title", FORGERIES)
def test_a_forged_report_gains_nothing(guests: Guests, title: str) -> None:
    run = guests.run(FORGERIES[title])
    assert run.exit_code == (1 if title == "by shadowing" else 3)
    assert (run.has_result, run.timed_out) == (False, False)


NO_REPORTS = {
    "not JSON": b"{",
    "not an object": b"[]",
    "no code": b'{"result": 1}',
    "a code that is no number": b'{"exit_code": "0"}',
    "more than was asked": b'{"exit_code": 0, "timed_out": true}',
    "not UTF-8": b'{"exit_code": 0, "result": "\xff"}',
    "NaN": b'{"exit_code": 0, "result": NaN}',
    "half a pair": b'{"exit_code": 0, "result": "\\ud800"}',
    "too deep": b'{"exit_code": 0, "result": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "too long": b'{"exit_code": 0, "result": "' + b"x" * 8_000_000 + b'"}',
    "two": b'{"exit_code": 0}{"exit_code": 0}',
}


@on_one_engine
@pytest.mark.parametrize("title", NO_REPORTS)
def test_what_is_no_report_is_an_error_that_says_so(guests: Guests, title: str) -> None:
    run = guests.run(
        f"""
        import os
        data = memoryview({NO_REPORTS[title]!r})
        while data:
            data = data[os.write(3, data):]
        os._exit(0)
        """
    )
    assert (run.exit_code, run.has_result) == (1, False)
    assert "The variable `result` could not be read" in run.stderr


def test_a_closed_channel_is_told(guests: Guests) -> None:
    run = guests.run("import os; os.closerange(3, 64); result = 1")
    assert (run.exit_code, run.has_result) == (1, False)
    assert "The result was lost" in run.stderr


def test_a_result_too_large_is_a_failure_that_says_so(guests: Guests) -> None:
    run = guests.run("result = 'x' * 5_000_000")
    assert (run.exit_code, run.has_result) == (1, False)
    assert run.stderr == "The variable `result` could not be returned: it takes more than 4194304 bytes\n"


def test_a_large_result_fits_up_to_its_limit(guests: Guests) -> None:
    assert guests.result("result = 'x' * 4_000_000") == "x" * 4_000_000


RESULTS = {
    "deep": ("result = []\nfor _ in range(5000): result = [result]", None),
    "itself": ("result = [1]\nresult.append(result)", [1, "[...]"]),
    "laughs": ("result = ['ha']\nfor _ in range(40): result = [result, result]", None),
    "tuple and set": ("result = {'t': (1, 'a'), 's': {1}, 'n': [float('nan')]}", {"t": "(1, 'a')", "s": "{1}", "n": ["nan"]}),
    "decimal": ("from decimal import Decimal\nresult = [Decimal('1.50'), b'\\xff']", ["Decimal('1.50')", "b'\\xff'"]),
    "bad repr": ("class R:\n    def __repr__(self): raise ValueError\nresult = [R()]", ["<R: repr() raised ValueError>"]),
    "big ints": ("result = [2**63, 2**64, -2**63 - 1]", [2**63, 2**64, -(2**63) - 1]),
    "keys": ("result = {1: 'a', '1': 'b', None: 'c', (1,): 'd'}", {"1 (int)": "a", "1": "b", "None": "c", "(1,)": "d"}),
    "half a pair": ("result = 'a\\ud800b'", "a�b"),
    "subclasses": (
        "from collections import *\nresult = [OrderedDict(a=1), Counter('aa'), defaultdict(int)]",
        [{"a": 1}, {"a": 2}, {}],
    ),
    "enum": ("import enum\nclass E(enum.IntEnum): A = 1\nresult = E.A", 1),
}


@on_one_engine
@pytest.mark.parametrize("title", RESULTS)
def test_every_result_is_json(guests: Guests, title: str) -> None:
    code, expected = RESULTS[title]
    run = guests.run(code)
    json.dumps(run.result, allow_nan=False)
    if expected is not None:
        assert (run.exit_code, run.result) == (0, expected)
