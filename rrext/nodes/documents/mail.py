"""E-mail: headers, the text that its reader would see, and the texts of its attachments."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage, Message, MIMEPart
from typing import Any, Final

from rrext.charsets import decoded
from rrext.errors import ToolError
from rrext.nodes.documents.detection import detected
from rrext.nodes.documents.records import DocumentPiece, ParsedDocument, corrupt

MAX_ATTACHMENTS: Final = 100
"""Attachments of one mail that are read; the others are named in a warning."""

Attached = Callable[[bytes, str, str], ParsedDocument]
"""(bytes, name, MIME type) → an attached document, or without a name the mail's own text. Raises `ToolError`."""

_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")
_HEADERS_END: Final = re.compile(rb"\r?\n\r?\n")


def read_mail(data: bytes, read_attached: Attached) -> tuple[list[DocumentPiece], dict[str, Any]]:
    """The pieces of a mail, each attachment below a heading with its name, and its facts.

    An attachment that cannot be read does not fail the mail: it is named under `warnings`.
    """
    message = email.message_from_string(_with_read_headers(data), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    if not message.keys():
        raise corrupt("It should be an e-mail, but has no headers")
    headers = [(name, value) for name in _HEADERS if (value := _header(message, name))]
    pieces = [DocumentPiece("text", "".join(f"**{name}**: {value}\n\n" for name, value in headers))]
    body = message.get_body(("plain", "html"))
    if body is not None:
        pieces += read_attached(_bytes(body), "", _type(body)).pieces
    metadata: dict[str, Any] = {"created": _header(message, "Date"), "subject": _header(message, "Subject")}
    metadata |= {"from": _header(message, "From"), "to": _addresses(message, "To"), "cc": _addresses(message, "Cc")}
    names, warnings = [], []
    for number, part in enumerate(_attachments(message, body), 1):
        name = " ".join(_readable(part.get_filename() or f"part {number}").split())
        names.append(name)
        if number > MAX_ATTACHMENTS:
            warnings.append(f'The attachment "{name}" was not read: there are more than {MAX_ATTACHMENTS}')
            continue
        try:
            attached = read_attached(_bytes(part), name, _type(part))
        except ToolError as error:
            warnings.append(f'The attachment "{name}" was not read: {error.message}')
        else:
            pieces += [DocumentPiece("text", f"\n\n## {name}\n\n"), *attached.pieces]
            warnings += [f"{name}: {warning}" for warning in attached.metadata.get("warnings", ())]
    return pieces, {**metadata, "attachments": names, "warnings": warnings}


def _with_read_headers(data: bytes) -> str:
    """A mail as the parser takes it: its headers are text, and other bytes that are not ASCII are escaped.

    Headers should be ASCII. Some programs write them in a charset that nobody names: where it does not show, `?` is a byte.
    """
    found = _HEADERS_END.search(data)
    end = len(data) if found is None else found.start()
    headers, rest = data[:end], data[end:].decode("ascii", "surrogateescape")
    for charset in ("utf-8", detected(headers) or "ascii"):
        try:
            return decoded(headers, charset) + rest
        except UnicodeError:
            continue
    return headers.decode("ascii", "replace").replace("\ufffd", "?") + rest


def _attachments(message: MIMEPart, body: MIMEPart | None) -> Iterator[MIMEPart]:
    """The attachments: all parts except the body and its alternatives."""
    if not message.is_multipart():
        if body is None:
            yield message
        return
    if message.get_content_maintype() != "multipart":
        yield message  # a forwarded mail alone
        return
    for part in message.iter_attachments():
        assert isinstance(part, MIMEPart)
        if part.get_content_maintype() == "multipart":
            yield from _attachments(part, part.get_body(("plain", "html")))
        else:
            yield part


def _bytes(part: MIMEPart) -> bytes:
    inner = part.get_payload()
    if isinstance(inner, list):  # of messages: a forwarded mail, or the parts of a report on delivery
        return b"\n".join(message.as_bytes() for message in inner if isinstance(message, Message))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _type(part: MIMEPart) -> str:
    charset = part.get_content_charset()
    return part.get_content_type() + (f"; charset={charset}" if charset else "")


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(_readable(str(message.get(name, ""))).split())


def _readable(text: str) -> str:
    """The text of a header; the parser has a mark for each byte that it could not read, which says nothing to people."""
    return text.replace("\ufffd", "?")


def _addresses(message: EmailMessage, name: str) -> list[str]:
    header = message.get(name)
    return [str(address.addr_spec) for address in getattr(header, "addresses", ())]
