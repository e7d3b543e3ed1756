"""References of requests: resolved, kept by connection, and called by their call ref or name."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from rrext.engine.calls.run import Lease
from rrext.engine.calls.tool_calls import ToolList
from rrext.engine.host.host import Host
from rrext.engine.host.places import FREE
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import CallTool, ResolveTools, Tool
from rrext.engine.tasks.component import Component, component_for
from rrext.engine.tasks.routes import Route
from rrext.engine.tasks.task import Task, learn_tool
from rrext.errors import InvalidArguments, NotFound, RrextError, ToolNotFound, error_from_wire
from rrext.limits import MAX_KEPT_REFERENCES, MAX_REFERENCES, NAME_HASH_DIGITS
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import PipelineSpec
from rrext.pipefile.text.problems import below
from rrext.pipefile.validation import PipelineOutline
from rrext.references import PIPELINE_TOOL, PREFIX, CallRef, CallRefNames, Reference, ReferenceReader, same_names, texts_in

if TYPE_CHECKING:
    from rrext.engine.tasks.registry import Tasks


KEYS: Final = {"mcp": "server", "http": "server", "composio": "connection", "pipeline": "pipeline", "node": "node"}
"""Kind of a reference → the key of the part that may not be there."""

_Told = TypeVar("_Told")
_Answer: TypeAlias = tuple[Reference, Task, Route]
"""A reference to one tool, its task and its route."""


class ReferenceCalls:
    """Runs `ResolveTools`, and makes tool calls of `CallTool`.

    Pipelines and connections that requests name are components of two tasks of the engine, one for callers who are trusted,
    which no list of tasks has.
    """

    def __init__(self, host: Host, tasks: Tasks[Task], tool_list: ToolList) -> None:
        self._host = host
        self._tasks = tasks
        self._list = tool_list
        self._kept: dict[str, KeptReferences] = {}
        self._outside: dict[bool, Task] = {}

    # resolve

    async def resolve(self, call: Call, operation: ResolveTools) -> dict[str, Any]:
        """The body of the answer: builtins by name, the others described. Raises one error with all problems."""
        reader = ReferenceReader()
        references = reader.references(operation.tools, "/tools")
        told = [*reader.problems, *same_names(("", reference) for reference in references)]
        problems = [(path, message, "invalid_arguments") for path, message in texts_in(told)]
        if not references and not problems:
            return {"builtins": [], "custom": []}
        task = None
        if any(reference.kind in ("node", "builtin") for reference in references):
            task = self._tasks.get(operation.token, call.caller)
        found = await asyncio.gather(*(self._resolving(call, task, each) for each in references), return_exceptions=True)
        answers: list[_Answer] = []
        own = {_tool_of(reference) for reference in references}
        taken = {reference.name for reference in references if reference.action}
        for reference, each in zip(references, found, strict=True):
            if isinstance(each, _Problem):
                problems += each.problems
            elif isinstance(each, BaseException):
                raise each
            elif reference.action:
                answers += each
            else:  # a tool with a reference of its own is as that says, and a name is given once
                answers += [answer for answer in each if _tool_of(answer[0]) not in own and answer[0].name not in taken]
                own.update(_tool_of(answer[0]) for answer in each)
        if len(answers) > MAX_REFERENCES:
            text = f"The references take {len(answers):,} tools, more than {MAX_REFERENCES:,}: say which with include."
            problems.append(("/tools", text, "invalid_arguments"))
        if problems:
            raise _error_of(
                sorted(problems, key=lambda problem: int(problem[0].split("/")[2] if problem[0] != "/tools" else 0))
            )
        return self._described(call, answers)

    def _resolving(self, call: Call, task: Task | None, reference: Reference) -> Awaitable[list[_Answer]]:
        """What a reference means, at once where no component has to be set up."""
        if task is None or reference.kind not in ("node", "builtin"):
            return self._resolved(call, task, reference)
        route = task.routes.only(reference.integration or None, reference.action)
        is_known = route is not None and route.component.ready and route.is_among(call.caller.tools)
        if route is None or not is_known or not self._list.is_visible(call, task, route):
            return self._resolved(call, task, reference)
        done: asyncio.Future[list[_Answer]] = asyncio.get_running_loop().create_future()
        try:
            wrapped = route if reference.kind == "builtin" else self._wrapped(call, task, reference, route)
            done.set_result([(reference, task, wrapped)])
        except _Problem as problem:
            done.set_exception(problem)
        except RrextError:
            return self._resolved(call, task, reference)
        return done

    async def _resolved(self, call: Call, task: Task | None, reference: Reference) -> list[_Answer]:
        """Each tool that a reference means. Raises `_Problem`."""
        try:
            if reference.kind in ("node", "builtin"):
                assert task is not None
                return [(reference, task, await self._own(call, task, reference))]
            _require_allowed(call, reference)
            if reference.kind == "pipeline":
                await self._host.engine.text_type(reference.integration, call.caller)
            task = self._outside_with(call, reference)
            component = task.components[node_of(reference)]
            await component.ensure(self._host, trusted=call.caller.trusted)
        except NotFound as error:
            key = "tool" if error.code == "tool_not_found" else KEYS[reference.kind]
            path = reference.path if reference.kind == "builtin" else below(reference.path, key)
            raise _Problem([(path, error.message, error.code)]) from None
        except RrextError as error:
            key = "tool" if "tool" in error.data else KEYS.get(reference.kind)
            path = reference.path if key is None or reference.kind == "builtin" else below(reference.path, key)
            raise _Problem([(path, error.message, error.code)]) from None
        if not reference.action:
            return self._whole(call, task, reference, component)
        origin = component.tool(reference.action)
        if origin is None:
            key = "action" if reference.kind == "composio" else "tool"
            known = component.tool_names if call.caller.tools is None else []
            missing = ToolNotFound.near(f'"{reference.integration}" has no tool "{reference.action}".', reference.action, known)
            raise _Problem([(below(reference.path, key), missing.message, missing.code)])
        return [(reference, task, self._wrapped(call, task, reference, Route(component, origin)))]

    def _whole(self, call: Call, task: Task, reference: Reference, component: Component) -> list[_Answer]:
        """The tools of a server that a reference takes and the caller may use. Raises `_Problem` for patterns without any."""
        known = [name for name in component.tool_names if _is_allowed(call, replace(reference, action=name))]
        problems: list[tuple[str, str, str]] = []
        for index, pattern in enumerate(reference.include):
            if not fnmatch.filter(known, pattern):
                missing = ToolNotFound.near(f'No tool of "{reference.integration}" fits "{pattern}".', pattern, known)
                problems.append((below(reference.path, "include", index), missing.message, missing.code))
        if problems:
            raise _Problem(problems)
        answers: list[_Answer] = []
        for each in reference.single(known):
            origin = component.tool(each.action)
            assert origin is not None
            answers.append((each, task, self._wrapped(call, task, each, Route(component, origin))))
        return answers

    async def _own(self, call: Call, task: Task, reference: Reference) -> Route:
        """The route of a tool of a pipeline. Raises `NotFound`, and `Unavailable` for a tool that the caller may not call."""
        node_id = reference.integration or None
        if task.may_learn(node_id, reference.action):
            await learn_tool(self._host, task, node_id, reference.action, trusted=call.caller.trusted)
        try:
            allowed = [route for route in task.route(node_id, reference.action) if route.is_among(call.caller.tools)]
            for route in allowed:
                await route.component.ensure(self._host, trusted=call.caller.trusted)
                if self._list.is_visible(call, task, route):
                    return route if reference.kind == "builtin" else self._wrapped(call, task, reference, route)
            if allowed:
                self._list.require_visible(call, task, allowed[-1])
            raise ToolNotFound(f'No handler found for tool "{reference.action}"')
        except NotFound as error:
            raise self._list.explain(call, task, error, reference.action, node_id) from None

    def _wrapped(self, call: Call, task: Task, reference: Reference, route: Route) -> Route:
        """The route through a reference. Raises `_Problem` for arguments and parameters that do not fit the tool."""
        if reference.arguments or reference.parameters:
            from rrext.tools.narrowed_spec import narrowing_problems

            found = narrowing_problems(
                self._with_node(task, route, route.spec.plan), reference.arguments, reference.parameters, self._host.limits
            )
            if found:
                texts = ((path, message + (f' Did you mean "{near[0]}"?' if near else "")) for path, message, near in found)
                raise _Problem([(below(reference.path, *path), text, "invalid_arguments") for path, text in texts])
        return Route.of_reference(reference, route.node_id, route)

    def _described(self, call: Call, answers: Sequence[_Answer]) -> dict[str, Any]:
        custom: list[dict[str, Any]] = []
        for reference, task, route in answers:
            if reference.kind == "builtin" or not self._list.is_visible(call, task, route):
                continue
            described = self._with_node(task, route, route.spec.describe)
            entry = {
                "name": described["name"],
                "description": described["description"],
                "input_schema": described["inputSchema"],
                "call_ref": self._kept_of(call).keep(_ref_of(reference, task), task, route),
            }
            custom.append(entry if reference.permission == "allow" else {**entry, "permission": reference.permission})
        return {"builtins": [reference.name for reference, _, _ in answers if reference.kind == "builtin"], "custom": custom}

    def _with_node(self, task: Task, route: Route, ask: Callable[[Any], _Told]) -> _Told:
        """What a tool says of itself, with a node object if it needs one."""
        if route.spec.static and not route.component.tool_description:
            return ask(None)
        lease = Lease(task, FREE)
        try:
            return ask(lease.node(route.component.id))
        finally:
            lease.drop()

    # call

    def begin(self, call: Call, operation: CallTool, *, here: bool = False) -> Tool | None:
        """Make a call that of the tool which its call ref or name means. Raises `RrextError`.

        `here`: on the thread that reads requests. The answer is None there, if the loop is needed.
        """
        name = operation.call_ref or operation.name
        if not name or (operation.call_ref and operation.name):
            raise InvalidArguments.at("/call_ref", "expected either call_ref or name")
        kept = self._kept.get(call.caller.connection_id)
        found = None if kept is None else kept.find(name, offered=operation.call_ref is None)
        node_id: str | None = None
        if found is not None:
            call.task, call.route = found
            node_id, tool = call.route.node_id, call.route.spec.name
        elif (ref := CallRef.read(name)) is None and operation.call_ref is None:
            tool = name
        elif ref is None or ref.names_a_wrapper:
            known = kept.call_refs if kept is not None else ()
            raise ToolNotFound.near(f'There is no call_ref "{name}" here: resolve the reference first.', name, known)
        elif ref.provider == "node":
            node_id, tool = ref.integration, ref.action
        elif here:
            return None
        else:
            tool = ref.action
            call.task, node_id = self._outside_of(call, ref)
        made = call.operation = Tool(
            token=operation.token,
            timeout=operation.timeout,
            meta=operation.meta,
            tool=tool,
            node_id=node_id,
            input=_object_in(operation.arguments),
            pipe_id=operation.pipe_id,
            progress=operation.progress,
            stream=operation.stream,
            events=operation.events,
            permits=operation.permits,
            questions=operation.questions,
            content=operation.content,
        )
        call.redact = self._redact
        return made

    def _redact(self, error: RrextError) -> None:
        """Name the arguments of `rrext_tools_call` in an error, instead of the input of `tool`."""
        listed = error.data.get("errors")
        if isinstance(error, InvalidArguments) and isinstance(listed, list):
            for each in listed:
                each["path"] = each["path"].replace("/input", "/arguments", 1)
            error.message = error.message.replace("/input", "/arguments", 1)
        self._host.redactor.error(error)

    def _outside_of(self, call: Call, ref: CallRef) -> tuple[Task, str]:
        """The task and the component of a plain call ref of a pipeline or a connection. Raises if there is none."""
        kinds = ("pipeline", "mcp", "http", "composio")
        if ref.provider not in kinds:
            raise ToolNotFound.near(f'There is no provider "{ref.provider}".', ref.provider, ("node", *kinds))
        kind: Any = ref.provider
        connection = ref.connection if kind == "composio" else ""
        reference = Reference(path="", kind=kind, integration=ref.integration, action=ref.action, connection=connection)
        _require_allowed(call, reference)
        if kind == "pipeline":
            self._host.engine.require_pipeline(ref.integration, call.caller)
        return self._outside_with(call, reference), node_of(reference)

    # tasks of the engine

    def _outside_with(self, call: Call, reference: Reference) -> Task:
        """The engine's task with the component of a running pipeline or of a connection. Raises the errors of an unknown
        connection.
        """
        name, remote = reference.connection or reference.integration, not call.caller.trusted
        if reference.kind != "pipeline":
            known = self._host.shared_connections if remote else self._host.connections
            known.find(name, reference.kind, reference.integration)
        task = self._outside.get(remote)
        if task is None:
            task = self._outside[remote] = self._new_task()
        components: Any = task.components
        if node_of(reference) not in components:
            component = component_for(reference, components, remote=remote, is_hidden=False)
            assert component is not None
            component.tools_changed = lambda changed: task.update_routes()
            task.dynamic = tuple(part for part in components.values() if part.node_class.has_dynamic_tools)
            task.update_routes()
        return task

    def _new_task(self) -> Task:
        loaded = LoadedPipeline(
            PipelineSpec(source="", components=(), chain=(), project_id=""),
            (), {"components": []}, base="", outline=PipelineOutline(), text=None, source_map=None,
        )  # fmt: skip
        limits = self._host.limits
        return Task("", loaded, {}, limits, clock=self._host.clock, options={})

    async def aclose(self) -> None:
        """Close the components of pipelines and connections."""
        parts = [component for task in self._outside.values() for component in task.components.values()]
        await asyncio.gather(*(component.close(self._host.limits.drain) for component in parts))

    # ends

    def forget_task(self, task: Task) -> None:
        """Drop the references to a pipeline that has ended, and its component."""
        for kept in self._kept.values():
            kept.forget(task)
        for outside in self._outside.values():
            outside.drop_component(node_of(Reference(path="", kind="pipeline", integration=task.token, action=PIPELINE_TOOL)))

    def disconnect(self, connection_id: str) -> None:
        """Drop the references of a connection that ended."""
        self._kept.pop(connection_id, None)

    def _kept_of(self, call: Call) -> KeptReferences:
        return self._kept.setdefault(call.caller.connection_id, KeptReferences())


class _Problem(Exception):
    """The problems of one reference: JSON pointer, message, code."""

    def __init__(self, problems: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self.problems = problems


def _is_allowed(call: Call, reference: Reference) -> bool:
    """Whether the caller may use the tool of a pipeline or a connection, or any of a whole server."""
    allowed = call.caller.tools
    if allowed is None or reference.action:
        return allowed is None or reference.call_ref.text in allowed
    return any(name.startswith(f"{PREFIX}.{reference.kind}.{reference.integration}.") for name in allowed)


def _require_allowed(call: Call, reference: Reference) -> None:
    """Raise `ToolNotFound` for a tool of a pipeline or a connection that the caller may not use."""
    if not _is_allowed(call, reference):
        name = reference.call_ref.text if reference.action else reference.integration
        raise ToolNotFound(f'No handler found for tool "{name}"')


def _tool_of(reference: Reference) -> tuple[str, str, str, str]:
    """What tells the tool of a reference from those of others."""
    return reference.kind, reference.integration, reference.connection, reference.action


def node_of(reference: Reference) -> str:
    """The id of the component of a pipeline or a connection, in the engine's tasks."""
    return f"{reference.kind}:{reference.connection or reference.integration}"


def _error_of(problems: Sequence[tuple[str, str, str]]) -> RrextError:
    """One error for all problems. It has their code, if they share it."""
    path, message, code = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    shared = code if all(other == code for _, _, other in problems) else "invalid_arguments"
    listed = [{"path": path, "message": message, "code": code} for path, message, code in problems]
    return error_from_wire(shared, f"{path}: {message}{more}", None, {"errors": listed})


def _ref_of(reference: Reference, task: Task) -> CallRef:
    """The call ref of a resolved reference: that of the tool, or one whose last segment names the wrapper."""
    ref = reference.call_ref
    if not reference.is_wrapper:
        return ref
    from hashlib import sha256

    about = msgspec.structs.asdict(reference)
    del about["path"]
    written = msgspec.json.encode([task.token, about], order="deterministic")
    return ref._replace(connection=f"{ref.connection}_{sha256(written).hexdigest()[:NAME_HASH_DIGITS]}")


def _object_in(arguments: Any) -> Any:
    """The arguments; a JSON text of an object, as models may write it, is that object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return decoded if isinstance(decoded, dict) else arguments


class KeptReferences:
    """The resolved references of one connection. The oldest is dropped when there are too many."""

    def __init__(self) -> None:
        self._names = CallRefNames()
        self._refs: dict[CallRef, tuple[Task, Route]] = {}
        self._offered: dict[str, CallRef] = {}

    def keep(self, ref: CallRef, task: Task, route: Route) -> str:
        """Keep a reference under the name that it offers and its own two names; the text of its call ref."""
        self._refs.pop(ref, None)
        self._refs[ref] = task, route
        self._offered[route.spec.name] = ref
        if len(self._refs) > MAX_KEPT_REFERENCES:
            self._drop(next(iter(self._refs)))
        return self._names.add(ref)[0]

    def find(self, name: str, *, offered: bool) -> tuple[Task, Route] | None:
        """The tool of a call ref or of a function name, or of an offered name if that may be meant."""
        ref = self._offered.get(name) if offered else None
        found = self._refs.get(ref or self._names.find(name))  # pyright: ignore[reportArgumentType, reportCallIssue]
        return None if found is None or found[0].stopping else found

    def forget(self, task: Task) -> None:
        """Drop the tools of a pipeline that has ended."""
        for ref in [ref for ref, (kept, _) in self._refs.items() if kept is task]:
            self._drop(ref)

    def _drop(self, ref: CallRef) -> None:
        _, route = self._refs.pop(ref)
        self._names.discard(ref)
        if self._offered.get(route.spec.name) == ref:
            del self._offered[route.spec.name]

    @property
    def call_refs(self) -> list[str]:
        """The texts of all call refs that are kept."""
        return [self._names.add(ref)[0] for ref in self._refs]

    def __len__(self) -> int:
        return len(self._refs)
