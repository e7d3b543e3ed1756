"""The result of a tool: the body of an answer by its content type."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.http.failures import bad_answer
from rrext.providers.http.limits import QUICK_BODY

if TYPE_CHECKING:
    from rrext.providers.http.api_client import ApiServer, HttpAnswer
    from rrext.providers.provider import ProviderServices


_CHARSETS: Final = re.compile(
    r"utf-?(8|16|32)([bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?1|windows-\d+|cp\d+|koi8-[ru]|shift_jis|euc-(jp|kr)|gbk|gb2312|gb18030|big5"
)
"""Character sets of texts. Python decodes others too, some of them in quadratic time."""


async def result_of(answer: HttpAnswer, server: ApiServer, services: ProviderServices) -> Any:
    """JSON as its value, text as text, other content as bytes, and null for an empty body.

    Raises `ToolError` for invalid JSON.
    """
    if len(answer.body) <= QUICK_BODY:
        return _result(answer, server)
    return await services.in_thread(_result, answer, server)


def _result(answer: HttpAnswer, server: ApiServer) -> Any:
    if not answer.body:
        return None
    media = answer.media
    if media == "application/json" or media.endswith("+json"):
        try:
            return msgspec.json.decode(answer.body.removeprefix(codecs.BOM_UTF8))
        except (msgspec.DecodeError, RecursionError):
            raise bad_answer(server, "no JSON, though it says so") from None
    if media.startswith("text/") or media.endswith("+xml") or media in ("application/xml", "application/yaml"):
        return _text(answer)
    return answer.body


def _text(answer: HttpAnswer) -> str:
    charset = answer.charset.lower() if _CHARSETS.fullmatch(answer.charset.lower()) else "utf-8"
    try:
        return answer.body.decode(charset, "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
