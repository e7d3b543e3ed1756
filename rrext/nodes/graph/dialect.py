"""`CypherDialect`, the properties of one database's Cypher, and the words that a read-only statement may use; and the lexer.

The gate refuses all other words. The lexer is strict: it refuses any text with two readings, because the database gets
the caller's own text. Databases disagree about Unicode escapes, fancy dashes and letters that fold to ASCII: Neo4j, for
one, reads `\\u0027` as a quote even within a string, and `\\u000a` as the end of a comment. A text that depends on such
things is refused.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, cast

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.databases.word_lists import words, words_of

WRITING: Final = words("""
    CREATE INSERT MERGE SET DELETE DETACH NODETACH REMOVE DROP FOREACH LOAD COPY TRANSACTIONS
""")
"""Words that are refused wherever they could be a clause, even where the gate reads them as a name."""

CLAUSES: Final = words("""
    MATCH OPTIONAL WHERE WITH UNWIND RETURN ORDER SKIP OFFSET LIMIT UNION CALL YIELD LET FILTER FINISH NEXT
""")
"""Words that begin a clause."""

AFTER_OPERAND: Final = CLAUSES | words("""
    AND OR XOR NOT IN IS STARTS ENDS CONTAINS AS ASC ASCENDING DESC DESCENDING WHEN THEN ELSE END BY PATH PATHS
    GROUP GROUPS FROM TYPED NFC NFD NFKC NFKD HINT JOIN MULTI_JOIN
""")
"""Words that may follow a complete expression or pattern."""

TYPES: Final = words("""
    BOOLEAN BOOL STRING TEXT VARCHAR INTEGER INT FLOAT DOUBLE INT8 INT16 INT32 INT64 INT128 UINT8 UINT16 UINT32 UINT64
    UINT128 SERIAL DECIMAL BLOB UUID DATE TIME DATETIME TIMESTAMP TIMESTAMP_NS TIMESTAMP_MS TIMESTAMP_SEC TIMESTAMP_TZ
    INTERVAL DURATION ZONED LOCAL WITHOUT TIMEZONE ZONE POINT NODE VERTEX RELATIONSHIP EDGE PATH MAP LIST ARRAY STRUCT
    UNION VALUE ANY NOTHING NORMALIZED JSON VECTOR
""") - {"UNION", "PATH"}
"""Words after other words in the name of a type, or after the name of a field."""

HINTS: Final = words("""
    INDEX SEEK SCAN JOIN ON TEXT RANGE POINT BTREE
""")
"""Words of a hint, after USING."""

SHOWN_KINDS: Final = words("""
    INDEX INDEXES CONSTRAINT CONSTRAINTS PROCEDURE PROCEDURES FUNCTION FUNCTIONS DATABASE DATABASES
""")
"""Objects that SHOW may list: the graph's content, and none of its users, settings and transactions."""

SHOWN: Final = SHOWN_KINDS | words("""
    ALL FULLTEXT TEXT POINT RANGE VECTOR TOKEN LOOKUP BTREE BRIEF VERBOSE OUTPUT UNIQUE UNIQUENESS NODE RELATIONSHIP REL
    PROPERTY EXIST EXISTS EXISTENCE KEY TYPE BUILT IN USER DEFINED EXECUTABLE BY CURRENT HOME DEFAULT
""")
"""Words between SHOW and its next part."""

OPERANDS: Final = words("""
    NULL TRUE FALSE END ASC ASCENDING DESC DESCENDING
""")
"""Words that are a complete expression themselves, or complete one."""

PATH_MODES: Final = words("""
    SHORTEST WSHORTEST TRAIL ACYCLIC WALK REPEATABLE DIFFERENT ELEMENT ELEMENTS RELATIONSHIPS
""")
"""Words before a pattern or a quantifier that select the matching paths."""

FUNCTIONS: Final = words_of(__file__, "functions.txt")
"""Functions of every dialect that only compute. None reads a file, reaches a network or advances a sequence."""


class CypherDialect(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One dialect of Cypher, made once by the module of its database. Names are in small letters."""

    name: str
    """The answer of the tool `dialect`."""
    procedures: frozenset[str]
    """Procedures that only report the content of the graph."""
    functions: frozenset[str] = FUNCTIONS
    """Functions that only compute."""
    options: bool = False
    """Whether `CYPHER 25 runtime=slotted` may stand before a statement."""
    shows: bool = False
    """Whether the dialect has SHOW."""
    logical_plans: bool = False
    """Whether the dialect has EXPLAIN LOGICAL."""


TOKENS_MAX: Final = 40_000
"""Tokens of a statement: more is data, which belongs into parameters. So any text is judged in a fraction of a second."""

Kind = Literal["word", "name", "string", "number", "parameter", "symbol"]

TOKEN: Final = re.compile(
    r"""
    [ \t\r\n\f]*+
    (?: (?P<word> [^\W\d]\w*+ )
      | (?P<symbol> [()\[\]{},.:;|+\-*%^=<>!&?~] | /(?![/*]) | \$(?=\() )
      | (?P<string> '(?:[^'\\]++|\\.)*+' | "(?:[^"\\]++|\\.)*+" )
      | (?P<number> (?: 0[xX][0-9a-fA-F]+ | 0[oO][0-7]+ | [0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? ) (?!\w|\.(?!\.)) )
      | (?P<parameter> \$(?: (?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*+)(?!\w) | `(?:[^`\\]++|``)*+` ) )
      | (?P<name> `(?:[^`\\]++|``)*+` )
      | (?P<comment> //[^\r\n]*+ | /\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/ )
      | (?P<end> \Z )
    )""",
    re.X | re.S,
)
"""The next token with the blanks before it; matches in linear time."""

ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([uU])|.)", re.S)
TWICE: Final = re.compile(r"\\\\u+[0-9a-fA-F]{4}")
"""A backslash before letters that other lexers read as an escape together with it."""

ANYWHERE: Final = re.compile(r"\\u+[0-9a-fA-F]{4}")
LINE_ENDS: Final = re.compile("[\x0b\x0c\x85\u2028\u2029]")
"""Characters that end a line in some databases: the rest of a comment would be a statement there."""


class CypherToken(msgspec.Struct, frozen=True, gc=False):
    """A token of Cypher. `value` is its meaning: a name and a parameter without their signs; a string has its quotes.

    `keyword` is a word in capital letters, and empty for a token that can be no keyword; `position` is where it begins, in
    characters.
    """

    kind: Kind
    value: str
    keyword: str
    position: int


def tokens(cypher: str, path: str = "/input/query") -> list[CypherToken]:
    """All tokens of a text. Raises `InvalidArguments` at `path`, naming line and column, for text that is no clear Cypher."""
    text = _CypherText(cypher, path)
    text.check()
    found: list[CypherToken] = []
    add, match = found.append, TOKEN.match
    position = 0
    while (piece := match(cypher, position)) is not None:
        kind = cast(str, piece.lastgroup)
        value: str = piece[kind]
        position = piece.end()
        if len(found) > TOKENS_MAX:
            raise InvalidArguments.at(path, f"has more than {TOKENS_MAX} words and signs: give data as parameters")
        if kind == "word":
            if not value.isascii():
                text.check_word(value, position)
            add(CypherToken("word", value, value.upper(), position - len(value)))
        elif kind == "symbol":
            add(CypherToken("symbol", value, "", position - len(value)))
        elif kind == "end":
            return found
        elif kind == "comment":
            text.check_comment(value, position)
        else:
            if kind == "string" and "\\" in value:
                text.check_string(value, position)
            add(CypherToken(cast(Kind, kind), _meaning(kind, value), "", position - len(value)))
    raise text.strange(position)


def _meaning(kind: str, value: str) -> str:
    if kind == "parameter":
        value = value[1:]
    return value[1:-1].replace("``", "`") if value[0] == "`" else value


class _CypherText:
    """A text, and the errors in it."""

    def __init__(self, cypher: str, path: str) -> None:
        self.cypher = cypher
        self.path = path

    def check(self) -> None:
        """Raise for characters that some databases change."""
        if "\0" in self.cypher:
            raise self._error("a character U+0000 cannot be sent", self.cypher.index("\0"))
        try:
            self.cypher.encode()
        except UnicodeEncodeError as error:
            raise self._error("half a character cannot be sent", error.start) from None

    def check_word(self, word: str, end: int) -> None:
        """Raise for a word that letter folding would change to another one."""
        if _folded_differs(word):
            raise self._error("this word has letters that some databases take for others: put it in backticks", end - len(word))

    def check_comment(self, comment: str, end: int) -> None:
        """Raise for a comment that ends elsewhere in some databases."""
        at = end - len(comment)
        if ANYWHERE.search(comment):
            raise self._error("an escape in a comment ends it in some databases", at)
        if comment.startswith("//"):
            if LINE_ENDS.search(comment) or (self.cypher.startswith("\r", end) and not self.cypher.startswith("\n", end + 1)):
                raise self._error("this comment has an end of line that is none for all databases", at)
        elif "/*" in comment[2:]:
            raise self._error("a comment within a comment is not the same for all databases", at)

    def check_string(self, string: str, end: int) -> None:
        """Raise for a string with an escape that can end it in some database."""
        at = end - len(string)
        if TWICE.search(string):
            raise self._error("a backslash before a u is not the same for all databases: give this string as a parameter", at)
        if "\\u" not in string and "\\U" not in string:
            return
        for escape in ESCAPED.finditer(string):
            if escape[3]:
                raise self._error("a u behind a backslash needs four hexadecimal digits behind it", at + escape.start())
            code = int(escape[1] or escape[2] or "41", 16)
            if code < 0x80 and not chr(code).isalnum():
                raise self._error(
                    "this escape is a sign of its own in some databases: write the character", at + escape.start()
                )

    def strange(self, at: int) -> InvalidArguments:
        """The error for an invalid token."""
        text = self.cypher
        while at < len(text) and text[at] in " \t\r\n\f":
            at += 1
        character = text[at]
        if character in "'\"":
            return self._error("a string begins here and never ends", at)
        if character == "`":
            return self._error("a name in backticks begins here and never ends, or holds a backslash", at)
        if text.startswith("/*", at):
            return self._error("a comment begins here and never ends", at)
        if character == "$":
            return self._error("a parameter is $ and a name, or a number", at)
        if character.isascii() and character.isdigit():
            return self._error("after this number a blank is missing", at)
        return self._error(f"the character U+{ord(character):04X} is no part of Cypher here", at)

    def _error(self, what: str, at: int) -> InvalidArguments:
        line = self.cypher.count("\n", 0, at) + 1
        column = at - self.cypher.rfind("\n", 0, at)
        return InvalidArguments.at(self.path, f"line {line}, column {column}: {what}")


def _folded_differs(word: str) -> bool:
    """Whether folding turns a letter into ASCII, as the Kelvin sign into k and the long s into S."""
    for letter in set(word):
        if letter.isascii():
            continue
        forms = (letter.upper(), letter.lower(), letter.casefold(), unicodedata.normalize("NFKC", letter))
        if forms[3] != letter or any(len(form) == 1 and form.isascii() for form in forms):
            return True
    return False
