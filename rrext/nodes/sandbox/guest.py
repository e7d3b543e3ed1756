"""The first code in a guest: it confines itself, then runs the program. Only the standard library exists here.

rrext never imports this module: the warden compiles it, and each guest receives the code on its stdin, a socket to the
supervisor. The talk on that socket: the guest gets this code, then the filter, and says `LOCKED`; the supervisor looks at
it from outside, and sends the program; at its end the guest sends one JSON object, `{exit_code, lack?, result?, picture?}`. All
bytes after `LOCKED` are untrusted. (Annotations are quoted because `__future__` is a file as well.)
"""

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.abc import MetaPathFinder
    from types import TracebackType

LOCKED = b"L"
NAME = "<code>"
PNG = b"\x89PNG\r\n\x1a\n"
_RUNNER = "<rrext>"
_RESERVE = 8 * 1024 * 1024
"""Address space kept back until the program has ended, so that an out-of-memory error can still be reported."""
_STACK = 4 * 1024 * 1024
"""Bytes of address space of a thread's stack. At Python's recursion limit, sorting in the key of a sort needs 2.5 MiB; 64
stacks are half of the default memory."""
_LONGEST_LACK = 100
"""Characters of a word with the name of a module."""
_MOST_ERRORS = 16
"""Errors that led to one another, in which a reason is looked for: a program may have made a ring of them."""
_LACKS_OF_NUMBERS = {12: "memory", 24: "descriptors"}  # ENOMEM, EMFILE
_REFUSED_CALLS = (1, 38)
_REFUSALS = (*_REFUSED_CALLS, 2, 13, 30)
"""Error numbers of refused calls (EPERM, ENOSYS), and of files too (ENOENT, EACCES, EROFS)."""
_LACKS_OF_MODULES = {"socket": "network", "subprocess": "processes", "multiprocessing": "processes"}
_LACKS_SAID = {
    "EOF when reading a line": "input",
    "can't start new thread": "threads",
    "unable to open database file": "files",
    "failed to map segment from shared object": "memory",
}
"""What errors without a number say, or say last, behind the name of a library."""


def main(
    encode_result: "Callable[[object, int], bytes]", finder: "Callable[..., MetaPathFinder] | None", *packages: object
) -> int:
    """Serve one program; return the exit status of the process. `finder(*packages)` finds the granted packages, if any."""
    if finder is not None:
        sys.meta_path.append(finder(*packages))
    channel = os.dup(0)
    _end_stdin()
    _make_threads_small()
    _lock_in(receive(channel))
    os.write(channel, LOCKED)
    code, result_limit = marshal.loads(receive(channel))
    reserve = [bytes(_RESERVE)]  # not touched, so not paid for
    namespace = _fresh_main()
    exit_code, lack = _run(code, namespace, reserve)
    reserve.clear()
    exit_code, report = _report(exit_code, lack, namespace, encode_result, result_limit)
    try:
        _send(channel, report)
        os.close(channel)
    except OSError:
        _print_error("The result was lost: the program closed descriptors that are not its own\n")
        exit_code = exit_code or 1
    return exit_code & 0xFF


def receive(channel: int) -> bytes:
    """Receive one block: four bytes of length, then the data."""
    return _read(channel, int.from_bytes(_read(channel, 4), "little"))


def _read(channel: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(channel, size - len(data))
        if not piece:
            os._exit(125)  # the supervisor is gone
        data += piece
    return bytes(data)


def _send(channel: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(channel, view) :]


def _end_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _call(name: str, *arguments: object) -> int:
    # `ctypes` is this and five files more, and each file that a guest opens costs a trip to its supervisor: 4 ms.
    import _ctypes

    library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType]
    return _ctypes.call_function(_ctypes.dlsym(library, name), arguments)


def _make_threads_small() -> None:
    """Let a thread take a small part of the address space, which the limit of memory counts: by default it reserves 72 MiB."""
    import _thread

    _thread.stack_size(_STACK)
    most_arenas = -8
    _call("mallopt", most_arenas, 1)  # all threads allocate in one place


def _lock_in(filters: bytes) -> None:
    import _ctypes

    def simple(code: str) -> type:
        return type(code, (_ctypes._SimpleCData,), {"_type_": code})

    class Program(_ctypes.Structure):
        _fields_ = (("length", simple("H")), ("filters", simple("z")))

    word = simple("L")
    set_seccomp, mode_filter = 22, 2
    program = _ctypes.byref(Program(len(filters) // 8, filters))
    if _call("prctl", set_seccomp, word(mode_filter), program, word(0), word(0)):
        _print_error("The filter for system calls was refused\n")
        os._exit(125)


def _fresh_main() -> dict[str, object]:
    import _sitebuiltins
    import builtins

    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    sys.orig_argv = [NAME]
    for name in ("exit", "quit"):  # what `site` adds, and programs use
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    namespace = vars(module)
    namespace["__builtins__"] = builtins
    return namespace


def _run(code: str, namespace: dict[str, object], reserve: list[bytes]) -> tuple[int, str]:
    """Run the program. Returns its exit code, and what it lacked."""
    silent = _noted_shells()
    try:
        exec(compile(code, NAME, "exec", dont_inherit=True), namespace)
    except SystemExit as end:
        exit_code = _exit_code(end.code)
        return exit_code, (_lack(end) if exit_code else "") or "".join(silent)
    except BaseException as error:
        reserve.clear()
        lack = _lack(error) or "".join(silent)
        try:
            _show(error, code)
        except BaseException:
            _print_error(f"{type(error).__name__}: {_line_of(error)}\n")
        return 1, lack
    return 0, "".join(silent)


def _noted_shells() -> list[str]:
    """A list that gets the lack of processes once `os.system` is called, which raises nothing and returns only a number."""
    lack: list[str] = []
    start = os.system

    def system(command: "str | bytes | os.PathLike[str] | os.PathLike[bytes]") -> int:
        lack[:] = ["processes"]
        return start(command)

    os.system = system
    return lack


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int) and -(2**31) <= code < 2**31:
        return int(code)
    try:
        sys.stderr.write(f"{code}\n")
    except BaseException:
        _print_error("The exit message could not be printed\n")
    return 1


def _show(error: BaseException, code: str) -> None:
    trace = _without_runner(error.__traceback__)
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, trace)
        return
    import linecache
    import traceback

    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    traceback.print_exception(type(error), error, trace)


def _without_runner(trace: "TracebackType | None") -> "TracebackType | None":
    while trace is not None and trace.tb_frame.f_code.co_filename == _RUNNER:
        trace = trace.tb_next
    return trace


def _lack(error: BaseException) -> str:
    """The facility that the sandbox lacks for the program, by the error or its causes: a word that `outcome` explains.

    Errors are the program's: they may lie, or fail when they are looked at.
    """
    try:
        errors = [error]
        for one in errors:
            if lack := _lack_told_by(one):
                return lack
            behind = (*getattr(one, "exceptions", ())[:_MOST_ERRORS], one.__cause__, one.__context__)
            errors += [other for other in behind if isinstance(other, BaseException)][: _MOST_ERRORS - len(errors)]
    except BaseException:
        pass
    return ""


def _lack_told_by(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        known = f"{error.name}".partition(".")[0] in sys.stdlib_module_names
        return "" if known else f"module:{error.name}"[:_LONGEST_LACK]
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return _lack_of_system(error, error.errno)
    said = error.args[0] if error.args else None
    return _LACKS_SAID.get(said.rpartition(": ")[2], "") if isinstance(said, str) else ""


def _lack_of_system(error: OSError, number: int) -> str:
    if number < 0:  # of the resolver
        return "network"
    if number not in _REFUSALS:
        return _LACKS_OF_NUMBERS.get(number, "")
    try:
        os.close(os.dup(0))
    except OSError:  # sandlock, which opens files for a guest, tells a lack of descriptors as EACCES
        return "descriptors"
    trace = error.__traceback__
    while trace is not None:
        module = f"{trace.tb_frame.f_globals.get('__name__')}".partition(".")[0]
        if module in _LACKS_OF_MODULES:
            return _LACKS_OF_MODULES[module]
        trace = trace.tb_next
    return "processes" if number in _REFUSED_CALLS and error.filename is None else "files"


def _line_of(error: BaseException) -> str:
    """The line of the program that led to the error; needs hardly any memory."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f'File "{NAME}", line {line}'


def _report(
    exit_code: int, lack: str, namespace: dict[str, object], encode_result: "Callable[[object, int], bytes]", limit: int
) -> tuple[int, bytes]:
    result = namespace.get("result")
    tail = b', "lack": ' + encode_result(lack, limit) + b"}" if lack else b"}"
    if result is not None:
        try:
            encoded = encode_result(result, limit)
            tail = b', "result": ' + encoded + tail
        except BaseException as error:
            reason = f"it takes more than {limit} bytes" if type(error).__name__ == "ResultTooBig" else type(error).__name__
            _print_error(f"The variable `result` could not be returned: {reason}\n")
            exit_code = exit_code or 1
        else:
            tail = _picture(result, limit - len(encoded)) + tail
    return exit_code, b'{"exit_code": %d' % exit_code + tail


def _picture(result: object, limit: int) -> bytes:
    """The member `picture` of the report, if the result is a picture: bytes of PNG, or a figure of matplotlib."""
    try:
        draw = getattr(result, "savefig", None)
        if draw is not None and f"{type(result).__module__}".startswith("matplotlib."):
            import io

            file = io.BytesIO()
            draw(file, format="png")
            result = file.getvalue()
        if not isinstance(result, bytes) or not result.startswith(PNG):
            return b""
        if 4 * len(result) > 3 * limit:
            _print_error(f"The picture in `result` could not be returned: with its text it takes more than {limit} bytes\n")
            return b""
        import binascii

        return b', "picture": "%b"' % binascii.b2a_base64(result, newline=False)
    except BaseException as error:
        _print_error(f"The picture in `result` could not be drawn: {type(error).__name__}\n")
        return b""


def _print_error(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass  # the program closed its stderr: no stream is left for the message
