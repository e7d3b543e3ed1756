"""Code actions, which are fixes and runs, and formatting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from rrext.editor.analysis import Analysis
from rrext.editor.fixes.fix import Fix, FixContext
from rrext.editor.fixes.table import fix_all_edits, fixes_any, fixes_for, is_safe
from rrext.editor.formatting import formatted
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.page import readable
from rrext.editor.text import Edit
from rrext.faces.lsp.diagnostics import SOURCE, as_told
from rrext.faces.lsp.documents import State, as_edits, as_range, offset_of, workspace_edit
from rrext.faces.lsp.runs.commands import RUN, wants
from rrext.pipefile.text.problems import Problem, Span

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


MAX_FIXED_PROBLEMS: Final = 20
"""The number of problems whose fixes are offered at once; a selection may hold a thousand."""

MAX_TITLE: Final = 200
"""Characters of a title, which may quote the file."""

T = TypeVar("T")

QUICK: Final = types.CodeActionKind.QuickFix.value
FIX_ALL: Final = f"{types.CodeActionKind.SourceFixAll.value}.rrext"

_MODIFIED: Final = types.LSPErrorCodes.ContentModified.value


class DeferredEdit(msgspec.Struct, frozen=True):
    """The data of an action whose edit is computed on resolve: fixes of all problems of a code, or all safe fixes."""

    uri: str
    version: int | None
    code: str | None = None


def register_actions(server: PipeServer) -> None:
    """Let a server answer code actions."""
    actions = Actions(server)
    options = types.CodeActionOptions(code_action_kinds=[QUICK, FIX_ALL, RUN], resolve_provider=True)
    server.answer(types.TEXT_DOCUMENT_CODE_ACTION, actions.answer, options)
    server.answer(types.CODE_ACTION_RESOLVE, actions.resolve)
    server.when_closing(actions.aclose)


class Actions:
    """The code actions of one server. One thread computes them, because that may import the code of every node."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        self._known_nodes: KnownNodes | None = None
        self._fixable: tuple[Analysis | None, dict[str | None, bool]] = None, {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rrext-actions")

    async def answer(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The actions at a position; none for a client that only supports commands. Raises if the document changes
        meanwhile."""
        if not self._can("code_action_literal_support"):
            return []
        uri = params.text_document.uri
        document = self._server.documents.get(uri)
        state = document.state
        analysis = await self._server.documents.analysis(document, state)
        text, asked = state.text, params.context
        span = (offset_of(text, params.range.start), offset_of(text, params.range.end))
        found: list[types.CodeAction] = []
        if wants(asked.only, QUICK):
            told = _SentDiagnostics(analysis, state, asked.diagnostics)
            problems = told.at(span)
            fixes = await self._run(self._fixes, analysis, problems)
            found += [self._quick(uri, state, same, told) for same in _by_edits(fixes)]
            found += await self._all_of_codes(uri, state, analysis, fixes)
        if wants(asked.only, FIX_ALL):
            found += await self._all_safe(uri, state, analysis, asked.only is not None)
        for source in self._server.action_sources:
            found += source(params, text, span, analysis)
        if document.state.version != state.version:  # an empty list would mean that there is no action
            raise JsonRpcException(f"{uri} was edited meanwhile", _MODIFIED)
        return found

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Add the deferred edit to an action. Raises if its document changed."""
        if action.edit is not None or action.data is None:
            return action
        try:
            later = msgspec.convert(action.data, DeferredEdit)
        except msgspec.ValidationError as error:
            raise JsonRpcInvalidParams(f"This is no action of rrext: {error}") from None
        document = self._server.documents.get(later.uri)
        state = document.state
        if state.version != later.version:
            raise JsonRpcException(f"{later.uri} was edited meanwhile", _MODIFIED)
        analysis = await self._server.documents.analysis(document, state)
        action.edit = self._change(later.uri, state, await self._run(self._fix_all, analysis, later.code))
        return action

    async def aclose(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # on the thread

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _fixes(self, analysis: Analysis, problems: Sequence[Problem]) -> list[Fix]:
        context = FixContext(analysis, self._nodes_of(analysis))
        return [fix for problem in problems for fix in fixes_for(context, problem)]

    def _fix_all(self, analysis: Analysis, code: str | None) -> tuple[Edit, ...]:
        return fix_all_edits(analysis, _wanted(code), self._nodes_of(analysis))

    def _fixes_any(self, analysis: Analysis, code: str | None) -> bool:
        """Whether `_fix_all` has edits; known of the last document, for each move of the cursor in it."""
        if self._fixable[0] is not analysis:
            self._fixable = analysis, {}
        known = self._fixable[1]
        if code not in known:
            known[code] = fixes_any(analysis, _wanted(code), self._nodes_of(analysis))
        return known[code]

    def _nodes_of(self, analysis: Analysis) -> KnownNodes:
        catalog = analysis.settings.catalog
        if self._known_nodes is None or self._known_nodes.catalog is not catalog:
            self._known_nodes = KnownNodes(catalog)
        return self._known_nodes

        # LSP objects

    def _quick(self, uri: str, state: State, same: Sequence[Fix], told: _SentDiagnostics) -> types.CodeAction:
        """One action for the fixes that make the same edits.

        A preferred action names the problems for which it is the preferred one: each has only one such action.
        """
        return types.CodeAction(
            readable(same[0].title, MAX_TITLE),
            kind=QUICK,
            diagnostics=[told.diagnostic(fix.problem) for fix in [fix for fix in same if fix.preferred] or same],
            is_preferred=True if any(fix.preferred for fix in same) else None,
            edit=self._change(uri, state, same[0].edits),
        )

    async def _all_of_codes(self, uri: str, state: State, analysis: Analysis, fixes: Sequence[Fix]) -> list[types.CodeAction]:
        """For each code with several problems: one action with the preferred fix of all of them, deferred."""
        if not self._resolves():
            return []
        codes = dict.fromkeys(fix.problem.code for fix in fixes if fix.preferred)
        counts = {code: sum(problem.code == code for problem in analysis.problems) for code in codes}
        return [
            types.CodeAction(f"Fix all {count} of {code}", kind=QUICK, data=_plain(DeferredEdit(uri, state.version, code)))
            for code, count in counts.items()
            if count > 1 and await self._run(self._fixes_any, analysis, code)
        ]

    async def _all_safe(self, uri: str, state: State, analysis: Analysis, is_asked: bool) -> list[types.CodeAction]:
        """All safe fixes at once. Unless this kind is requested, only if its edit can be deferred."""
        safe = sum(map(is_safe, analysis.problems))
        if not safe or not (is_asked or (safe > 1 and self._resolves())):
            return []
        action = types.CodeAction("Fix everything that has one obvious answer", kind=FIX_ALL)
        if self._resolves():
            action.data = _plain(DeferredEdit(uri, state.version))
            return [action] if await self._run(self._fixes_any, analysis, None) else []
        edits = await self._run(self._fix_all, analysis, None)
        action.edit = self._change(uri, state, edits)
        return [action] if edits else []

    def _change(self, uri: str, state: State, edits: Sequence[Edit]) -> types.WorkspaceEdit:
        return workspace_edit(self._server.client_capabilities, uri, state.version, state.text, list(edits))

        # capabilities of the client

    def _can(self, name: str) -> bool:
        return bool(get_capability(self._server.client_capabilities, f"text_document.code_action.{name}", None))

    def _resolves(self) -> bool:
        properties = "text_document.code_action.resolve_support.properties"
        resolved = get_capability(self._server.client_capabilities, properties, None) or ()
        return self._can("data_support") and "edit" in resolved


class _SentDiagnostics:
    """The problems of one state, and the client's diagnostics for them."""

    def __init__(self, analysis: Analysis, state: State, sent: Iterable[types.Diagnostic]) -> None:
        self._analysis = analysis
        self._state = state
        self._sent = {(str(other.code), _key(other.range)): other for other in sent if other.source in (None, SOURCE)}

    def at(self, span: Span) -> list[Problem]:
        """The problems that a selection touches, and those of the diagnostics in the request."""
        found = [problem for problem in self._analysis.problems if self._is_meant(problem, span)]
        return found[:MAX_FIXED_PROBLEMS]

    def _is_meant(self, problem: Problem, span: Span) -> bool:
        start, end = self._analysis.map.span_of(problem)
        return (start <= span[1] and span[0] <= end) or (bool(self._sent) and self._known(problem) is not None)

    def _known(self, problem: Problem) -> types.Diagnostic | None:
        return self._sent.get((problem.code, _key(self._range(problem))))

    def _range(self, problem: Problem) -> types.Range:
        return as_range(self._state.text, self._analysis.map.span_of(problem))

    def diagnostic(self, problem: Problem) -> types.Diagnostic:
        """The diagnostic of a problem; the client's own if it sent one."""
        known = self._known(problem)
        if known is not None:
            return known
        return types.Diagnostic(self._range(problem), as_told(problem.message), code=problem.code, source=SOURCE)


def _key(place: types.Range) -> tuple[int, int, int, int]:
    return place.start.line, place.start.character, place.end.line, place.end.character


def _by_edits(fixes: Iterable[Fix]) -> list[list[Fix]]:
    """The fixes grouped by their edits, in order."""
    found: dict[tuple[Edit, ...], list[Fix]] = {}
    for fix in fixes:
        found.setdefault(fix.edits, []).append(fix)
    return list(found.values())


def _wanted(code: str | None) -> Callable[[Problem], bool]:
    return is_safe if code is None else lambda problem: problem.code == code


def _plain(later: DeferredEdit) -> Any:
    return msgspec.to_builtins(later)


MAX_INDENT: Final = 16
"""Spaces of one level of a formatted document."""


def register_formatting(server: PipeServer) -> None:
    """Let a server format. A thread computes the edits; a text that is not well-formed has none."""

    async def edits(uri: str, options: types.FormattingOptions, lines: tuple[int, int] | None) -> list[types.TextEdit]:
        document = server.documents.get(uri)
        state = document.state
        text = state.text
        within: Span | None = None
        if lines is not None:
            within = (text.offset(lines[0], 0), text.offset(lines[1], len(text.content) * 4))
        indent = " " * min(options.tab_size, MAX_INDENT) if options.insert_spaces else "\t"
        found = await asyncio.to_thread(formatted, text.content, indent, within)
        if document.state is not state:
            raise JsonRpcException(f"{uri} was edited meanwhile", _MODIFIED)
        return as_edits(text, found)

    async def whole(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        return await edits(params.text_document.uri, params.options, None)

    async def some(params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
        start, end = params.range.start, params.range.end
        last = end.line - (end.character == 0 and end.line > start.line)  # editors select whole lines so
        return await edits(params.text_document.uri, params.options, (start.line, last))

    server.answer(types.TEXT_DOCUMENT_FORMATTING, whole)
    server.answer(types.TEXT_DOCUMENT_RANGE_FORMATTING, some)
