"""Requests of operations: parameters are written as OpenAPI says, and no argument changes where a request goes."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments
from rrext.providers.http.requests import ApiBody, ApiField, ApiOperation, ApiParameter, HttpRequest, request_of

BASE = "https://api.example/v1"
LIST = ["blue", "black", "a,b"]
MAP = {"R": 100, "G": "2 0"}


def made(place: Any, value: Any, path: str = "/x", **options: Any) -> HttpRequest:
    parameter = ApiParameter(
        name="c", place=place, property="c", **{"style": "simple" if place == "path" else "form", **options}
    )
    return request_of(ApiOperation(method="GET", path=path, parameters=(parameter,)), BASE, {"c": value})


@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("simple", False, "a/b ?", "a%2Fb%20%3F"),
        ("simple", False, 5, "5"),
        ("simple", False, True, "true"),
        ("simple", False, LIST, "blue,black,a%2Cb"),
        ("simple", False, MAP, "R,100,G,2%200"),
        ("simple", True, MAP, "R=100,G=2%200"),
        ("label", False, "x", ".x"),
        ("label", False, LIST, ".blue,black,a%2Cb"),
        ("label", True, LIST, ".blue.black.a%2Cb"),
        ("label", True, MAP, ".R=100.G=2%200"),
        ("matrix", False, "x", ";c=x"),
        ("matrix", False, LIST, ";c=blue,black,a%2Cb"),
        ("matrix", True, LIST, ";c=blue;c=black;c=a%2Cb"),
        ("matrix", False, MAP, ";c=R,100,G,2%200"),
        ("matrix", True, MAP, ";R=100;G=2%200"),
    ],
)
def test_a_parameter_of_the_path_has_its_style(style: str, explode: bool, value: Any, text: str) -> None:
    assert made("path", value, "/p/{c}/q", style=style, explode=explode).url == f"{BASE}/p/{text}/q"


@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("form", True, "a&b=c#d+é", "?c=a%26b%3Dc%23d%2B%C3%A9"),
        ("form", True, 1.5, "?c=1.5"),
        ("form", True, None, ""),
        ("form", True, [], ""),
        ("form", True, "", "?c="),
        ("form", True, LIST, "?c=blue&c=black&c=a%2Cb"),
        ("form", False, LIST, "?c=blue,black,a%2Cb"),
        ("form", True, MAP, "?R=100&G=2%200"),
        ("form", False, MAP, "?c=R,100,G,2%200"),
        ("form", True, {"a": None, "b": 1}, "?b=1"),
        ("form", False, {"a": None}, ""),
        ("form", True, [{"a": 1}], "?c=%7B%22a%22%3A1%7D"),
        ("spaceDelimited", False, LIST, "?c=blue%20black%20a%2Cb"),
        ("pipeDelimited", False, LIST, "?c=blue%7Cblack%7Ca%2Cb"),
        ("spaceDelimited", True, LIST, "?c=blue&c=black&c=a%2Cb"),
        ("spaceDelimited", False, MAP, "?c=R%20100%20G%202%200"),
        ("pipeDelimited", False, MAP, "?c=R%7C100%7CG%7C2%200"),
        ("deepObject", True, {"a": None, "b": {"c": None}}, ""),
        ("deepObject", True, ["a", {"b": 1}], "?c%5B0%5D=a&c%5B1%5D%5Bb%5D=1"),
        ("deepObject", True, {"a": {"b": 1}, "c": [1, 2]}, "?c%5Ba%5D%5Bb%5D=1&c%5Bc%5D%5B0%5D=1&c%5Bc%5D%5B1%5D=2"),
    ],
)
def test_a_parameter_of_the_query_has_its_style(style: str, explode: bool, value: Any, text: str) -> None:
    assert made("query", value, style=style, explode=explode).url == f"{BASE}/x{text}"


def test_a_parameter_with_a_content_type_is_json() -> None:
    assert made("query", {"a": [1]}, is_json=True).url == f"{BASE}/x?c=%7B%22a%22%3A%5B1%5D%7D"
    assert made("query", "7", is_json=True).url == f"{BASE}/x?c=%227%22"


def test_headers_and_cookies_have_their_values() -> None:
    assert made("header", LIST, style="simple").headers["c"] == "blue,black,a,b"
    assert made("header", MAP, style="simple", explode=True).headers["c"] == "R=100,G=2 0"
    assert made("cookie", "a;b=c").headers["cookie"] == "c=a%3Bb%3Dc"


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "\x00", "é", "a\tb"])
def test_a_header_is_never_two(value: str) -> None:
    with pytest.raises(InvalidArguments, match="no header can carry") as caught:
        made("header", value)
    assert caught.value.data["errors"][0]["path"] == "/input/c"


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../b", "..\\x", "a/.", "", None, [], ["a", ""], {"k": ""}])
def test_a_value_never_leaves_or_shortens_the_path(value: Any) -> None:
    with pytest.raises(InvalidArguments) as caught:
        made("path", value, "/users/{c}")
    assert caught.value.data["errors"][0]["path"] == "/input/c"


@given(
    st.text(max_size=30) | st.integers() | st.lists(st.text(max_size=5), max_size=3),
    st.sampled_from(["simple", "label", "matrix"]),
)
def test_whatever_a_value_is_the_path_keeps_its_segments_and_its_server(value: Any, style: str) -> None:
    try:
        url = made("path", value, "/users/{c}/orders", style=style).url
    except InvalidArguments:
        return
    parts = urlsplit(url)
    segments = parts.path.split("/")
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("https", "api.example", "", "")
    assert segments[:3] == ["", "v1", "users"]
    assert segments[4:] == ["orders"]
    assert segments[3].isascii()
    assert unquote(segments[3]) not in ("", ".", "..")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4))
def test_a_query_is_read_as_it_was_meant(value: dict[str, str]) -> None:
    url = made("query", value, explode=True).url
    assert dict(parse_qsl(urlsplit(url).query, keep_blank_values=True)) == value


def test_no_argument_replaces_what_the_connection_puts_into_the_query() -> None:
    free = ApiParameter(name="filter", place="query", property="filter", explode=True)
    with pytest.raises(InvalidArguments, match="api_key"):
        request_of(
            ApiOperation(method="GET", path="/x", parameters=(free,)), BASE, {"filter": {"api_key": "mine"}}, {"api_key"}
        )


# bodies


def sent(body: ApiBody, arguments: dict[str, Any]) -> HttpRequest:
    return request_of(ApiOperation(method="POST", path="/x", body=body), BASE, arguments)


def test_a_json_body_is_the_value_and_no_value_is_no_body() -> None:
    body = ApiBody(kind="json", media="application/json", property="body")
    request = sent(body, {"body": {"a": [1, None, "é"]}})
    assert request.content == '{"a":[1,null,"é"]}'.encode()
    assert request.headers["content-type"] == "application/json"
    assert sent(body, {"body": None}).content == b"null"
    assert sent(body, {}).content is None
    assert "content-type" not in sent(body, {}).headers


def test_a_form_is_written_in_pairs() -> None:
    body = ApiBody(kind="form", media="application/x-www-form-urlencoded", property="body")
    assert sent(body, {"body": {"a b": "c&d", "e": [1, 2]}}).content == b"a%20b=c%26d&e=1&e=2"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (ApiField(), {"city": "Oslo"}, "f=%7B%22city%22%3A%22Oslo%22%7D"),
        (ApiField(), None, ""),
        (ApiField(media="application/json"), "x", "f=%22x%22"),
        (ApiField(media="application/json"), [1, 2], "f=%5B1%2C2%5D"),
        (ApiField(style="form"), {"city": "Oslo"}, "city=Oslo"),
        (ApiField(style="form", explode=False), [1, "a,b"], "f=1,a%2Cb"),
        (ApiField(style="deepObject"), {"a": {"b": [{"c": 1}]}}, "f%5Ba%5D%5Bb%5D%5B0%5D%5Bc%5D=1"),
        (ApiField(style="form", allow_reserved=True), "a:/?b&c+d#e=f%20g%h;é", "f=a:/?b%26c%2Bd%23e=f%20g%25h%3B%C3%A9"),
    ],
)
def test_a_field_of_a_form_is_written_as_its_encoding_says(field: ApiField, value: Any, text: str) -> None:
    body = ApiBody(kind="form", media="application/x-www-form-urlencoded", property="body", fields={"f": field})
    assert sent(body, {"body": {"f": value}}).content == text.encode()


@given(st.text(st.characters(exclude_characters="%", exclude_categories=["Cs"]), max_size=12))
def test_reserved_characters_that_stand_end_no_value(value: str) -> None:
    url = made("query", value, explode=True, allow_reserved=True).url
    assert set(url.partition("?")[2]).isdisjoint("&;#+[] ")
    assert parse_qsl(urlsplit(url).query, keep_blank_values=True) == [("c", value)]


def parts_of(body: ApiBody, value: dict[str, Any]) -> list[tuple[Any, str, Any, bytes]]:
    """Name, type, name of the file and content of each part."""
    request = sent(body, {"body": value})
    assert request.content is not None
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    read: Any = BytesParser(policy=HTTP).parsebytes(head + request.content)
    return [
        (
            part["content-disposition"].params["name"],
            part.get_content_type(),
            part.get_filename(),
            part.get_payload(decode=True),
        )
        for part in read.iter_parts()
    ]


def test_a_part_has_the_type_of_its_encoding_and_its_own_name() -> None:
    fields = {
        "photo": ApiField(media="image/png", is_file=True),
        "meta": ApiField(media="application/json"),
        "offer": ApiField(media="application/sdp"),
        "address": ApiField(style="deepObject"),
        "tags": ApiField(style="form", explode=False),
        "seal": ApiField(media="application/octet-stream", headers={"content-transfer-encoding": "base64", "x-v": "1"}),
        "pages": ApiField(is_file=True),
        "none": ApiField(media="text/csv"),
    }
    body = ApiBody(kind="multipart", media="multipart/form-data", property="body", fields=fields)
    value = {"photo": "AAEC", "meta": "x", "offer": "v=0", "address": {"city": "Oslo & more"}, "tags": ["a", "b"], "img[]": 1}
    value |= {"seal": "AQ==", "pages": ["AA==", {"id": 7}], "none": None}
    assert parts_of(body, value) == [
        ("photo", "image/png", "photo", b"\x00\x01\x02"),
        ("meta", "application/json", None, b'"x"'),
        ("offer", "application/sdp", None, b"v=0"),
        ("address[city]", "text/plain", None, b"Oslo & more"),
        ("tags", "text/plain", None, b"a,b"),
        ("img[]", "text/plain", None, b"1"),
        ("seal", "application/octet-stream", None, b"\x01"),
        ("pages", "application/octet-stream", "pages", b"\x00"),
        ("pages", "application/json", None, b'{"id":7}'),
    ]


def test_a_multipart_body_has_texts_and_files() -> None:
    body = ApiBody(kind="multipart", media="multipart/form-data", property="body", fields={"file": ApiField(is_file=True)})
    request = sent(body, {"body": {"note": "a\r\n--x", 'na"me': {"k": 1}, "file": ["AAEC", "/w=="]}})
    assert request.content is not None
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    parts: Any = BytesParser().parsebytes(head + request.content).get_payload()
    found = [(part.get_param("name", header="content-disposition"), part.get_payload(decode=True)) for part in parts]
    assert found == [("note", b"a\r\n--x"), ("na%22me", b'{"k":1}'), ("file", b"\x00\x01\x02"), ("file", b"\xff")]
    assert [part.get_filename() for part in parts] == [None, None, "file", "file"]


def test_bytes_are_given_in_base64() -> None:
    body = ApiBody(kind="bytes", media="image/png", property="body")
    assert sent(body, {"body": "AAEC"}).content == b"\x00\x01\x02"
    with pytest.raises(InvalidArguments, match="/input/body: is not base64"):
        sent(body, {"body": "no base64"})
