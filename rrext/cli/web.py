"""The options of `rrext serve --ws`: the port of WebSockets and HTTP, and who may use it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from rrext.cli.options import KEY
from rrext.cli.terminal import tell_listening
from rrext.errors import UsageError

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
    from rrext.faces.http.address import Address
    from rrext.faces.http.certificate import Certificate
    from rrext.faces.http.kept_files import KeptFiles
    from rrext.faces.http.tokens import UserTokens
    from rrext.pipefile.environment import Environment
    from rrext.secrets.redaction import Redactor
    from rrext.server.process import Listener, ServingProcess

MAX_CONNECTIONS: Final = 4096
"""Connections of the port at once; each has a descriptor."""
OTHER_DESCRIPTORS: Final = 1024
"""Descriptors for all else: pipelines, files, databases."""

DEFAULT_ADDRESS: Final = "127.0.0.1:5565"


def add_web_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--ws",
        nargs="?",
        const=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help=f"answer clients of WebSockets and HTTP there instead of stdin (without an address: {DEFAULT_ADDRESS})",
    )
    parser.add_argument("--keys", metavar="FILE", help=f'with --ws: the keys of users, lines key = "user" (or one in {KEY})')
    parser.add_argument(
        "--trust-clients", action="store_true", help="with --ws: let clients' pipelines do all that those of files may"
    )
    parser.add_argument(
        "--allow-origin", action="append", default=[], type=origin, metavar="ORIGIN", help="with --ws: pages that may call"
    )
    parser.add_argument(
        "--metrics-key-file", metavar="FILE", help="with --ws: the key for the metrics of users and pipelines at /metrics"
    )
    add_proxy_option(parser, "--ws")
    parser.add_argument("--tls-cert", metavar="FILE", help="with --ws: the certificate, with its chain")
    parser.add_argument("--tls-key", metavar="FILE", help="with --ws: the private key of the certificate")


def add_proxy_option(parser: argparse.ArgumentParser, face: str) -> None:
    """Add the option that names proxies."""
    parser.add_argument(
        "--behind-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help=f"with {face}: take X-Forwarded-For and -Proto from proxies of this address or network (repeatable)",
    )


def origin(text: str) -> str:
    """An argparse type: the origin of a page."""
    from rrext.faces.http.origins import checked_origin

    try:
        return checked_origin(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def take_key(args: argparse.Namespace) -> str | None:
    """The key in the environment, which is left out of it from now on."""
    return os.environ.pop(KEY, None) if args.ws is not None else None


def check_options(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that do not go together."""
    if args.ws is None:
        for name in ("keys", "trust_clients", "allow_origin", "behind_proxy", "tls_cert", "tls_key", "metrics_key_file"):
            if getattr(args, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --ws")
    elif args.listen is not None:
        raise UsageError("--ws and --listen exclude each other: start a server for each")


def web_clients(args: argparse.Namespace, environment: Environment, caller: Caller) -> Listener:
    """The clients of the port. `caller` has what no client may change. Raises `UsageError`."""
    from rrext.faces.http.address import Address
    from rrext.faces.http.kept_files import KeptFiles
    from rrext.faces.http.proxies import Proxies
    from rrext.nodes.base.setup import missing_packages

    address = Address.of(args.ws)
    files = KeptFiles()
    proxies = Proxies(args.behind_proxy)
    keys = _keys(args, address, environment.redactor, files, is_behind=bool(proxies))
    metrics_keys = None
    if args.metrics_key_file is not None:
        metrics_keys = files.keep_tokens(
            args.metrics_key_file, "--metrics-key-file", "metrics key", environment.redactor, alone=True
        )
    missing = missing_packages("web", "uvicorn", "starlette", "websockets", "python_multipart")
    if missing is not None:
        raise UsageError(f"--ws: {missing}")
    from rrext.faces.http.listener import HttpClients
    from rrext.faces.ws.app import WebApp
    from rrext.faces.ws.protocol import SocketProtocol

    tls = _certificate(args, files)
    _allow_descriptors(MAX_CONNECTIONS + OTHER_DESCRIPTORS)

    def app(process: ServingProcess) -> WebApp:
        return WebApp(process, caller, keys, metrics_keys)

    def tell(address: Address) -> None:
        tell_listening(f"{'ws' if tls is None else 'wss'}://{address}")

    return HttpClients(
        address,
        app,
        tell,
        tokens=None,
        origins=args.allow_origin,
        proxies=proxies,
        upgrade=SocketProtocol,
        tls=tls,
        files=files,
        max_connections=MAX_CONNECTIONS,
    )


def caller_of_clients(args: argparse.Namespace, tools: frozenset[str] | None) -> Caller:
    """The caller of all clients of the port, without their users."""
    from rrext.engine.interface.call import Caller

    has_keys = args.keys is not None or args.key is not None
    return Caller(trusted=args.trust_clients, tools=tools, is_keyed=has_keys or not args.trust_clients)


def _keys(
    args: argparse.Namespace, address: Address, redactor: Redactor, files: KeptFiles, *, is_behind: bool
) -> UserTokens | None:
    """The keys of a file, or that of the environment. Raises `UsageError` without any where other machines can connect, be it
    by a proxy.
    """
    from rrext.faces.http.tokens import MIN_TOKEN, UserTokens
    from rrext.faces.ws.authentication import LOCAL_USER

    if args.keys is not None:
        return files.keep_tokens(args.keys, "--keys", "key", redactor)
    is_local = address.is_local and not is_behind
    if args.key is not None:
        redactor.learn("key 1", args.key, always=True)
        if not is_local and len(args.key) < MIN_TOKEN:
            raise UsageError(f"{KEY} has fewer than {MIN_TOKEN} characters, and other machines could guess it")
        return UserTokens({args.key: LOCAL_USER})
    if not is_local:
        raise UsageError(
            f"every machine that can reach {address} could call the tools: clients need keys there",
            hint=f"set {KEY} or give --keys FILE, or listen at 127.0.0.1",
        )
    return None


def _allow_descriptors(count: int) -> None:
    """Let the process have so many descriptors, or as many as the system lets it: a shell often allows no more than 1,024."""
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        count = min(count, most)
    if now != resource.RLIM_INFINITY and now < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))


def _certificate(args: argparse.Namespace, files: KeptFiles) -> Certificate | None:
    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None:
        raise UsageError("--tls-key needs --tls-cert")
    from rrext.faces.http.certificate import Certificate

    found = Certificate(args.tls_cert, args.tls_key)
    files.keep([path for path in (args.tls_cert, args.tls_key) if path is not None], found.read_again)
    return found
