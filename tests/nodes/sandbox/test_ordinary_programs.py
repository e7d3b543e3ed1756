"""Programs that people and agents really write must simply work: it is the whole language and its library."""

from __future__ import annotations

import subprocess
from textwrap import dedent

import pytest
from guests import Guests

from rrext.nodes.sandbox.interpreter import executable

pytestmark = pytest.mark.system

PROGRAMS = {
    "classes": (
        """
        class Shape:
            def __init__(self, name): self.name = name
            @property
            def title(self): return self.name.title()
            @staticmethod
            def sides(): return 0
            def __repr__(self): return f"<{self.title}>"
        class Square(Shape):
            def __init__(self): super().__init__("square")
            @staticmethod
            def sides(): return 4
        result = [repr(Square()), Square.sides(), isinstance(Square(), Shape)]
        """,
        ["<Square>", 4, True],
    ),
    "dataclasses": (
        """
        from dataclasses import dataclass, field, asdict
        @dataclass(order=True)
        class Item:
            name: str
            price: float
            tags: list[str] = field(default_factory=list)
        items = sorted([Item("b", 2.0), Item("a", 1.5, ["x"])])
        result = [asdict(item) for item in items]
        """,
        [{"name": "a", "price": 1.5, "tags": ["x"]}, {"name": "b", "price": 2.0, "tags": []}],
    ),
    "generators": (
        """
        def fibonacci():
            a, b = 0, 1
            while True:
                yield a
                a, b = b, a + b
        import itertools
        def delegate():
            got = yield from (x * x for x in range(3))
            yield "done"
        result = [list(itertools.islice(fibonacci(), 10)), list(delegate())]
        """,
        [[0, 1, 1, 2, 3, 5, 8, 13, 21, 34], [0, 1, 4, "done"]],
    ),
    "json": ("import json\nresult = json.loads(json.dumps({'a': [1, 2.5, None, 'ü']}))", {"a": [1, 2.5, None, "ü"]}),
    "re": (
        """
        import re
        result = re.sub(r"(?P<y>\\d{4})-(\\d\\d)", r"\\2/\\g<y>", "on 2026-11 and 2025-01")
        """,
        "on 11/2026 and 01/2025",
    ),
    "math": (
        """
        import cmath, fractions, math
        result = [math.comb(50, 25), round(math.pi, 3), str(fractions.Fraction(3, 9)), abs(cmath.sqrt(-4))]
        """,
        [126410606437752, 3.142, "1/3", 2.0],
    ),
    "datetime": (
        """
        from datetime import datetime, timedelta, timezone
        from zoneinfo import ZoneInfo
        start = datetime(2026, 3, 28, 12, tzinfo=ZoneInfo("Europe/Berlin"))
        result = [(start + timedelta(days=1)).isoformat(), start.astimezone(timezone.utc).hour, start.strftime("%A")]
        """,
        ["2026-03-29T12:00:00+02:00", 11, "Saturday"],
    ),
    "statistics": (
        """
        import statistics as s
        result = [s.mean([1, 2, 6]), s.median([3, 1, 2]), round(s.stdev([1, 2, 3, 4]), 4)]
        """,
        [3, 2, 1.291],
    ),
    "collections": (
        """
        from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple
        Point = namedtuple("Point", "x y")
        groups = defaultdict(list)
        for word in "the cat the dog".split(): groups[len(word)].append(word)
        last = list(deque([1, 2, 3], 2))
        result = [Counter("banana").most_common(1), dict(groups), last, Point(1, 2).x, ChainMap({}, {"a": 1})["a"]]
        """,
        [["('a', 3)"], {"3": ["the", "cat", "the", "dog"]}, [2, 3], 1, 1],
    ),
    "itertools and functools": (
        """
        import functools, itertools, operator
        @functools.cache
        def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
        words = ["".join(p) for p in itertools.permutations("abc", 2)]
        result = [f(80), functools.reduce(operator.mul, range(1, 11)), words[:3]]
        """,
        [23416728348467685, 3628800, ["ab", "ac", "ba"]],
    ),
    "decimal": (
        """
        from decimal import Decimal, getcontext
        getcontext().prec = 30
        result = str(Decimal(1) / 7)
        """,
        "0.142857142857142857142857142857",
    ),
    "csv": (
        """
        import csv, io
        out = io.StringIO()
        csv.writer(out).writerows([["name", "note"], ["a", 'said "hi", left']])
        result = list(csv.DictReader(io.StringIO(out.getvalue())))
        """,
        [{"name": "a", "note": 'said "hi", left'}],
    ),
    "hashes": (
        """
        import base64, hashlib, hmac, secrets
        result = [hashlib.sha256(b"").hexdigest()[:8], hmac.new(b"k", b"m", "sha1").hexdigest()[:8],
                  len(secrets.token_hex(8)), base64.b64encode(b"hi").decode()]
        """,
        ["e3b0c442", "772b71c8", 16, "aGk="],
    ),
    "text": (
        """
        import difflib, string, textwrap, unicodedata
        result = [textwrap.fill("a b c", 3), string.Template("$x").substitute(x=1),
                  difflib.get_close_matches("appel", ["ape", "apple"]), unicodedata.name("ü")]
        """,
        ["a b\nc", "1", ["apple", "ape"], "LATIN SMALL LETTER U WITH DIAERESIS"],
    ),
    "asyncio": (
        """
        import asyncio
        async def work(n):
            await asyncio.sleep(0.01)
            return n * n
        async def main():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(n)) for n in range(5)]
            return [task.result() for task in tasks] + [await asyncio.to_thread(sum, [1, 2])]
        result = asyncio.run(main())
        """,
        [0, 1, 4, 9, 16, 3],
    ),
    "threads": (
        """
        import queue, threading
        from concurrent.futures import ThreadPoolExecutor
        jobs = queue.Queue()
        lock, total = threading.Lock(), 0
        def add(n):
            global total
            with lock: total += n
        threads = [threading.Thread(target=add, args=(n,)) for n in range(20)]
        [t.start() for t in threads]; [t.join() for t in threads]
        with ThreadPoolExecutor(8) as pool: squares = list(pool.map(lambda n: n * n, range(5)))
        result = [total, squares]
        """,
        [190, [0, 1, 4, 9, 16]],
    ),
    "a pool that is not shut down": (
        """
        from concurrent.futures import ThreadPoolExecutor
        result = ThreadPoolExecutor(2).submit(pow, 2, 10).result()
        """,
        1024,
    ),
    "match": (
        """
        def area(shape):
            match shape:
                case {"kind": "circle", "r": r}: return round(3.14159 * r * r, 2)
                case [w, h] if w > 0: return w * h
                case str() | None: return 0
                case _: return -1
        result = [area({"kind": "circle", "r": 2}), area([2, 3]), area("x"), area(5)]
        """,
        [12.57, 6, 0, -1],
    ),
    "recursion": (
        """
        def hanoi(n, a, b, c): return [] if n == 0 else hanoi(n - 1, a, c, b) + [a + c] + hanoi(n - 1, b, a, c)
        def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
        result = [len(hanoi(10, "A", "B", "C")), depth(900)]
        """,
        [1023, 900],
    ),
    "unicode": (
        """
        s = "naïve 日本 🎉"
        print(s)
        result = [s.upper(), len(s), s[::-1], s.encode().hex()[:8]]
        """,
        ["NAÏVE 日本 🎉", 10, "🎉 本日 evïan", "6e61c3af"],
    ),
    "sqlite": (
        """
        import sqlite3
        db = sqlite3.connect(":memory:")
        db.execute("create table t (name text, n integer)")
        db.executemany("insert into t values (?, ?)", [("a", 1), ("b", 2), ("a", 3)])
        result = [list(row) for row in db.execute("select name, sum(n) from t group by name order by 1")]
        """,
        [["a", 4], ["b", 2]],
    ),
    "exceptions": (
        """
        class Mine(ValueError): pass
        log = []
        try:
            try: raise Mine("x")
            finally: log.append("finally")
        except ValueError as error: log.append(str(error))
        else: log.append("never")
        try: raise ExceptionGroup("g", [KeyError(1), Mine(2)])
        except* Mine as group: log.append(len(group.exceptions))
        except* KeyError: log.append("key")
        result = log
        """,
        ["finally", "x", 1, "key"],
    ),
    "contexts and decorators": (
        """
        import contextlib, functools, io, os
        @contextlib.contextmanager
        def tag(name):
            print(f"<{name}>"); yield; print(f"</{name}>")
        def twice(f):
            @functools.wraps(f)
            def wrapper(*a): return f(*a) * 2
            return wrapper
        @twice
        def add(a, b): return a + b
        text = io.StringIO()
        with contextlib.redirect_stdout(text), tag("b"): print(add(1, 2))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere): print("lost")
        result = [text.getvalue(), add.__name__]
        """,
        ["<b>\n6\n</b>\n", "add"],
    ),
    "types": (
        """
        import abc, enum, typing
        class Color(enum.Enum): RED = 1; BLUE = 2
        class Base(abc.ABC):
            @abc.abstractmethod
            def go(self) -> int: ...
        class Child(Base):
            def go(self) -> int: return 7
        class Row(typing.TypedDict): a: int
        class P(typing.Protocol):
            def go(self) -> int: ...
        T = typing.TypeVar("T")
        class Box(typing.Generic[T]):
            def __init__(self, value: T): self.value = value
        hints = typing.get_type_hints(Base.go)
        result = [Color["RED"].name, Child().go(), Row(a=1), Box[int](3).value, hints["return"].__name__]
        """,
        ["RED", 7, {"a": 1}, 3, "int"],
    ),
    "algorithms": (
        """
        import bisect, heapq, random, array, struct, zlib, copy, graphlib
        random.seed(1)
        numbers = [random.randint(0, 99) for _ in range(100)]
        result = [heapq.nsmallest(2, numbers) == sorted(numbers)[:2], bisect.bisect([1, 3, 5], 3),
                  list(array.array("i", [1, 2])), struct.pack(">H", 258).hex(), len(zlib.compress(bytes(1000))) < 50,
                  copy.deepcopy({"a": [1]}),
                  list(graphlib.TopologicalSorter({"b": {"a"}}).static_order())]
        """,
        [True, 2, [1, 2], "0102", True, {"a": [1]}, ["a", "b"]],
    ),
    "formats": (
        """
        import configparser, email.message, gzip, html, io, pickle, plistlib, tomllib, urllib.parse, uuid, zipfile
        import xml.etree.ElementTree as xml
        config = configparser.ConfigParser(); config.read_string("[a]\\nb = 1")
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as z: z.writestr("a.txt", "hi")
        result = [config["a"]["b"], html.escape("<"), tomllib.loads("x = 1"), urllib.parse.urlencode({"q": "a b"}),
                  len(str(uuid.uuid4())), xml.fromstring("<a><b>t</b></a>").find("b").text,
                  zipfile.ZipFile(data).read("a.txt").decode(), pickle.loads(pickle.dumps([1])),
                  gzip.decompress(gzip.compress(b"x")).decode()]
        """,
        ["1", "&lt;", {"x": 1}, "q=a+b", 36, "t", "hi", [1], "x"],
    ),
    "main": (
        """
        import pickle, dataclasses, inspect
        @dataclasses.dataclass
        class Here: a: int = 1
        def main():
            print(__name__, Here.__module__)
            return pickle.loads(pickle.dumps(Here(2))).a
        if __name__ == "__main__":
            result = main()
        """,
        2,
    ),
    "logging and warnings": (
        """
        import logging, sys, warnings
        logging.basicConfig(stream=sys.stdout)
        logging.warning("careful")
        warnings.simplefilter("error")
        try: warnings.warn("w")
        except UserWarning as error: result = str(error)
        """,
        "w",
    ),
    "tests": (
        """
        import doctest, unittest, io
        class T(unittest.TestCase):
            def test_it(self): self.assertEqual(1 + 1, 2)
        outcome = unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
        result = [outcome.testsRun, outcome.wasSuccessful()]
        """,
        [1, True],
    ),
    "time": (
        """
        import calendar, time
        start = time.perf_counter()
        time.sleep(0.01)
        waited = time.perf_counter() - start >= 0.01
        result = [waited, time.strftime("%Y", time.gmtime(0)), calendar.isleap(2024), time.tzname[0]]
        """,
        [True, "1970", True, "UTC"],
    ),
    "signals": (
        """
        import signal, time
        def late(*_): raise TimeoutError("late")
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            time.sleep(30)
        except TimeoutError as error: result = str(error)
        """,
        "late",
    ),
    "questions about the machine": (
        """
        import getpass, locale, mimetypes, os, platform, sys
        platform.platform(); locale.getlocale(); os.cpu_count()
        result = [mimetypes.guess_type("a.html")[0], sys.platform, os.getcwd(), os.path.expanduser("~x")]
        """,
        ["text/html", "linux", "/", "~x"],
    ),
    "a megabyte of numbers": ("result = list(range(100_000))", list(range(100_000))),
}  # fmt: skip


@pytest.mark.parametrize("title", PROGRAMS)
def test_it_works(guests: Guests, title: str) -> None:
    code, expected = PROGRAMS[title]
    assert guests.result(dedent(code)) == expected


@pytest.mark.promise("python:memory:threads")
@pytest.mark.parametrize("workers", [16, 40, 64])
def test_a_pool_of_threads_fits_the_default_memory(guests: Guests, workers: int) -> None:
    code = f"""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier
    everybody = Barrier({workers}, timeout=29)
    def work(n):
        held = [bytearray(1000) for _ in range(1000)]
        everybody.wait()
        return len(held)
    with ThreadPoolExecutor({workers}) as pool: result = sum(pool.map(work, range({workers})))
    """
    assert guests.result(code) == workers * 1000


DEEP = {
    "functions": "def f(): f()\nf()",
    "sorting in keys of sorts": "def f(x): return sorted([1, 2], key=f)\nf(1)",
    "attributes": "class A:\n    def __getattr__(self, name): return getattr(self, name)\nA().a",
    "conversions": "class A:\n    def __format__(self, how): return f'{A()}'\nf'{A()}'",
    "nested values": "import json\nx = []\nfor _ in range(10**5): x = [x]\njson.dumps(x)",
    "source text": "compile('+'.join(['1'] * 10**5), 'x', 'eval')",
}


@pytest.mark.parametrize("title", DEEP)
def test_recursion_without_end_in_a_thread_is_an_exception(guests: Guests, title: str) -> None:
    code = f"""
    import threading
    result = []
    def work():
        try: exec({DEEP[title]!r}, {{}})
        except RecursionError: result.append("too deep")
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    assert guests.result(code) == ["too deep"] * 3


def test_the_environment_is_empty(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_SECRET", "s")
    assert set(guests.result("import os; result = dict(os.environ)")) <= {"LC_CTYPE"}


def test_one_program_leaves_nothing_for_the_next(guests: Guests) -> None:
    guests.result("import builtins, sys; builtins.left = 1; sys.modules['left'] = 1; result = 1")
    assert guests.result("import sys\nresult = ['left' in sys.modules, 'left' in dir(__builtins__)]") == [False, False]


def test_every_module_of_the_standard_library_can_be_imported(guests: Guests) -> None:
    missing = """
import importlib, sys
result = []
for name in sorted(sys.stdlib_module_names - {"antigravity", "this", "idlelib"}):
    try:
        importlib.import_module(name)
    except ImportError:
        result.append(name)
"""
    program = [executable(), "-I", "-S", "-c", missing + "\nprint(' '.join(result))"]
    outside = subprocess.run(program, capture_output=True, text=True, check=True, env={}).stdout.split()
    assert guests.run(missing, timeout=60.0).result == outside
