"""The one redactor: values in any form become the names of their variables, and other text stays as it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.connections import Connections, results_redactor
from rrext.errors import ToolError
from rrext.limits import MANY_SPELLINGS, MAX_KEPT_CHARACTERS, MAX_KEPT_SECRETS, MAX_SECRET_PARTS, QUICK_SEARCH
from rrext.secrets import redaction
from rrext.secrets.redaction import Form, Redactor, ResultRedactor, authorization_redactor, folded, spellings

SECRET = "pa\"ss\\wörd/+\n'x y%&é"


SECRETS = ("swordfish-1", "swordfish-22", "hunter-2-hunter", "🔑🔑-key-of-all")


def _many() -> Redactor:
    redactor = Redactor()
    for number in range(MANY_SPELLINGS):
        redactor.learn("OTHER", f"{number:05}-{number * 7919:09}-q")
    for secret in SECRETS:
        redactor.learn("S", secret)
    return redactor


MANY = _many()


def knowing(**values: str) -> Redactor:
    redactor = Redactor()
    for name, value in values.items():
        redactor.learn(name, value)
    return redactor


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        SECRET.upper(),
        json.dumps(SECRET),
        json.dumps({"a": json.dumps([SECRET])}),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        repr({"k": [SECRET]}),
        repr(SECRET.encode()),
        ascii(SECRET),
        str(OSError(2, "No such file", f"/data/{SECRET}")),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET).lower(),
        SECRET.replace("'", "''"),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_a_value_is_found_in_whatever_form(text: str) -> None:
    told = knowing(K=SECRET).text(f"before {text} behind")
    assert "${K}" in told
    assert "ss" not in told.replace("No such", "").replace("dress", "")
    assert told.startswith("before ")
    assert told.endswith(" behind")


@given(st.binary(max_size=9), st.binary(max_size=9), st.text(min_size=8, max_size=40))
def test_a_value_is_found_in_base64_wherever_it_begins(before: bytes, behind: bytes, value: str) -> None:
    data = value.encode()
    for coded in (base64.b64encode(before + data + behind), base64.urlsafe_b64encode(before + data + behind)):
        assert "${K}" in knowing(K=value).text(coded.decode())


@pytest.mark.parametrize("text", ["hunter2hunter3…", "'hunter2hunt…'", "hunter2hun...", "x hunter2hunter", "…unter3hunter4 x"])
def test_a_value_that_is_cut_is_found(text: str) -> None:
    told = knowing(K="hunter2hunter3hunter4").text(text)
    assert "${K}" in told
    assert "hunt" not in told


@pytest.mark.parametrize("cut", ["swordfish-swordfish-77…", "swordfish-swordfish-77"])
def test_a_value_that_is_cut_behind_its_own_beginning_is_found(cut: str) -> None:
    told = knowing(K="swordfish-77-of-word-77").text(cut)
    assert "${K}" in told
    assert "77" not in told


@pytest.mark.parametrize(
    ("value", "text", "told"),
    [
        ("abc", "abc", "abc"),
        ("1", "1 of 1 rows", "1 of 1 rows"),
        ("data", "data/x of the database, metadata and data_1", "${K}/x of the database, metadata and data_1"),
        ("database", "2 databases", "2 ${K}s"),
        ("/home/me/project", "/home/me/project/a.py, line 1", "${K}/a.py, line 1"),
        ("./files/../deep/er", "deep/er/x", "${K}/x"),
        ("../deep/er/db", "/home/me/deep/er/db", "/home/me/${K}"),
        ("postgresql://me:swordfish@host/customers", 'no "customers" for swordfish', 'no "${K}" for ${K}'),
    ],
)
def test_what_only_resembles_a_value_is_left_alone(value: str, text: str, told: str) -> None:
    assert knowing(K=value).text(text) == told


def test_of_values_that_contain_each_other_the_longest_is_named() -> None:
    redactor = knowing(A="swordfish", B="swordfish-and-more")
    assert redactor.text("swordfish-and-more swordfish") == "${B} ${A}"


@given(st.text(max_size=200), st.text(min_size=8, max_size=30))
def test_no_value_of_eight_characters_stays_in_a_text(text: str, value: str) -> None:
    told = knowing(NAME=value).text(f"{text}{value}{text}")
    assert value not in told or value in "${NAME}" * 5
    assert knowing().text(text) == text


def test_a_failure_is_redacted_in_each_of_its_parts_and_stays_what_it_is() -> None:
    error = ToolError("swordfish!", code="own", hint="try swordfish", data={"swordfish": [{"a": "xswordfish"}, 7, None]})
    knowing(K="swordfish").error(error)
    assert (str(error), error.code, error.hint) == ("${K}!", "own", "try ${K}")
    assert error.data == {"${K}": [{"a": "x${K}"}, 7, None]}


def test_data_that_never_ends_is_left_out() -> None:
    data: dict[str, object] = {}
    data["self"] = data
    error = ToolError("endless", data=data)
    knowing(K="swordfish").error(error)
    assert error.data == {}


def test_the_oldest_values_are_forgotten_so_that_clients_cannot_fill_the_memory() -> None:
    redactor = knowing(FIRST="swordfish")
    for number in range(MAX_KEPT_SECRETS):
        redactor.learn("OTHER", f"value-{number}")
    assert redactor.text("swordfish") == "swordfish"
    assert redactor.text(f"value-{MAX_KEPT_SECRETS - 1}") == "${OTHER}"
    assert repr(redactor) == f"<Redactor of {MAX_KEPT_SECRETS} values>"


def test_the_memory_for_long_values_is_bounded_and_the_newest_one_is_kept() -> None:
    redactor = Redactor()
    size = MAX_KEPT_CHARACTERS // 8
    for number in range(20):
        redactor.learn("LONG", f"{number:04}" * (size // 4))
    assert repr(redactor) == "<Redactor of 8 values>"
    redactor.learn("LONGEST", "x" * (2 * MAX_KEPT_CHARACTERS))
    assert repr(redactor) == "<Redactor of 1 values>"
    assert redactor.text(f"{'x' * 100}… is none") == "${LONGEST}… is none"


def test_a_value_of_very_many_parts_costs_what_a_key_of_many_lines_does() -> None:
    redactor = Redactor()
    redactor.learn("MANY", "/".join(f"part{number:05}" for number in range(10_000)) + "/the-longest-part")
    assert redactor.text("the-longest-part of it") == "${MANY} of it"
    assert len(redactor._known()._names) < 5 * MAX_SECRET_PARTS
    for at in range(100):
        redactor.learn("MORE", "/".join(f"part{number:05}" for number in range(at, at + 100)))
    assert repr(redactor) == f"<Redactor of {MAX_KEPT_SECRETS // 101} values>"


@given(st.lists(st.sampled_from(SECRETS), min_size=1, max_size=3), st.data())
def test_among_very_many_values_each_is_found_as_among_few(secrets: list[str], data: st.DataObject) -> None:
    few, many = Redactor(), MANY
    for secret in SECRETS:
        few.learn("S", secret)
    pieces = [
        piece for secret in secrets for piece in (secret, secret.upper(), secret[:9] + "…", "…" + secret[-9:], secret[1:])
    ]
    text = "".join(data.draw(st.lists(st.sampled_from([*pieces, " ", "x", "-" * (QUICK_SEARCH - 5)]), max_size=6)))
    assert many.text(text) == few.text(text)


@pytest.mark.parametrize("text", ["the words of an error with sword in it", "the words of a line " * 400])
def test_a_text_is_not_searched_for_each_of_very_many_values(text: str) -> None:
    words = MANY._known()._runs

    class Text(str):
        looked = 0

        def __contains__(self, word: Any) -> bool:
            Text.looked += 1
            return super().__contains__(word)

    assert len(words.forms) > MANY_SPELLINGS
    assert words.within(Text(text)) == []
    assert Text.looked < 50


@pytest.mark.parametrize("secret", ["swordfish-22", "hunter-2-hunter"])
def test_a_secret_whose_every_character_is_escaped_is_found_among_very_many(secret: str) -> None:
    for escape in ("\\u{:04x}", "%{:02x}", "&#{};"):
        text = f"a {''.join(escape.format(ord(character)) for character in secret)} b"
        assert MANY.text(text) == "a ${S} b"


def test_the_lines_of_a_key_are_found_one_by_one() -> None:
    redactor = knowing(K="-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----\n")
    assert redactor.text("line 2: MIIEvQIBADANBgkqhkiG") == "line 2: ${K}"
    assert redactor.text("9w0BAQEFAASCBKcwggSj") == "${K}"


def test_values_that_clients_send_never_replace_a_secret_of_the_operator() -> None:
    redactor = Redactor()
    redactor.learn("KEY", "of-the-operator", always=True)
    for number in range(MAX_KEPT_SECRETS + 1):
        redactor.learn("X", f"of-a-client-{number:06}")
    assert redactor.text("of-the-operator, of-a-client-000000") == "${KEY}, of-a-client-000000"


@pytest.mark.parametrize("scheme", ["Bearer", "basic", "Token"])
def test_the_credentials_of_an_authorization_are_found_without_its_scheme(scheme: str) -> None:
    assert knowing(K=f"{scheme} 0123456789").text("sent 0123456789.") == "sent ${K}."
    assert knowing(K="Nobody 0123456789").text("sent 0123456789.") == "sent 0123456789."


def test_a_value_that_is_learned_while_a_text_is_read_is_found_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor, forms = knowing(A="the first value"), redaction.forms_of

    def learning(texts: frozenset[str]) -> frozenset[Form]:
        redactor.learn("B", "the second value")
        return forms(texts)

    monkeypatch.setattr(redaction, "forms_of", learning)
    redactor.text("what is told meanwhile")
    assert redactor.text("the second value") == "${B}"


@given(st.lists(st.text(min_size=8, max_size=20), min_size=1, max_size=4), st.data())
def test_what_is_redacted_once_is_redacted_for_good(values: list[str], data: st.DataObject) -> None:
    redactor = knowing(**{f"V{number}": value for number, value in enumerate(values)})
    text = "".join(data.draw(st.lists(st.sampled_from([*values, " ", "x", "…", "/"]), max_size=8)))
    told = redactor.text(text)
    assert all(value not in told for value in values if value not in "".join(f"${{V{n}}}" for n in range(len(values))))


RESULT = "result-secret-7"


def found_again(secret: str, value: Any) -> str | None:
    """A beginning of a secret that is still in a value."""
    return next((text for text in (secret[:6], secret[:6].upper()) if text in str(value)), None)


def of_results(*values: str) -> ResultRedactor:
    redactor = ResultRedactor()
    for number, value in enumerate(values):
        redactor.learn(f"c.key{number}", value)
    return redactor


def told(redactor: ResultRedactor, value: Any) -> Any:
    return redactor.value(value, folded(value))


@pytest.mark.parametrize("spelt", [str, str.upper, quote_plus, lambda v: v.encode().hex(), lambda v: json.dumps([{"k": v}])])
@pytest.mark.parametrize("secret", [RESULT, SECRET])
def test_a_secret_in_a_result_is_found_in_whatever_form(secret: str, spelt: Callable[[str], str]) -> None:
    redactor = of_results(secret)
    for value in (spelt(secret), {"a": [1, {spelt(secret): None}]}, spelt(secret).encode()):
        shown = told(redactor, value)
        assert "c.key0" in str(shown)
        assert type(shown) is type(value)
        assert found_again(secret, shown) is None


@given(st.binary(max_size=9), st.binary(max_size=9), st.text("abcXYZ019_-+/%ü\"'\\", min_size=8, max_size=40))
def test_a_secret_in_a_result_is_found_in_base64_and_inside_of_bytes(before: bytes, behind: bytes, secret: str) -> None:
    data = before + secret.encode() + behind
    for value in (data, base64.b64encode(data).decode(), {"packed": base64.urlsafe_b64encode(data).decode()}):
        assert "${c.key0}" in str(told(of_results(secret), value))


def _inside(values: Any) -> Any:
    return st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), _inside))
def test_a_result_without_secrets_is_the_very_same_value(value: Any) -> None:
    assert told(of_results(RESULT, "Bearer 0123456789"), value) is value


@pytest.mark.parametrize(
    "value",
    ["result-secret", "ecret-7", "…sult-secret-7", {"projects": "customers of swordfis"}, 2**70, "\ud800", b"\xff\x00swordfis"],
)
def test_parts_of_secrets_and_short_ones_are_left_alone_in_results(value: Any) -> None:
    redactor = of_results(RESULT, "swordfi", "/home/me/projects/customers")
    assert told(redactor, value) == value


def test_the_credentials_of_an_authorization_are_found_in_results_without_its_scheme() -> None:
    redactor = of_results("Bearer 0123456789")
    assert told(redactor, ["Bearer 0123456789", "0123456789", "Bearer"]) == ["${c.key0}", "${c.key0}", "Bearer"]


def test_an_authorization_is_spelt_once_for_many_calls_and_stays_that_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    spelt: list[str] = []
    monkeypatch.setattr(redaction, "spellings", lambda text: (spelt.append(text), *spellings(text))[1:])
    for _ in range(2):
        assert told(authorization_redactor("Bearer of-one-caller"), ["of-one-caller", "of-another"])[0] == "${authorization}"
        assert told(authorization_redactor("Bearer of-another"), ["of-one-caller"]) == ["of-one-caller"]
    assert sorted(spelt) == ["Bearer of-another", "Bearer of-one-caller", "of-another", "of-one-caller"]


def test_a_value_that_is_no_json_is_searched_too() -> None:
    value = {"a": [RESULT, 2**70, "\ud800"]}
    assert told(of_results(RESULT), value) == {"a": ["${c.key0}", 2**70, "\ud800"]}


def test_only_what_is_certainly_a_secret_is_taken_out_of_results() -> None:
    table = {
        "provider": "http",
        "url": "https://api.example/account-0123456789012345?page=0123456789&api_key=swordfish-1&token=swordfish-2",
        "headers": {
            "Accept": "application/json",
            "X-Version": "env:VERSION",
            "X-Api-Key": "swordfish-3",
            "Upstream": "Bearer swordfish-4",
        },
        "query": {"lang": "english-us", "access_token": "swordfish-5"},
    }
    (connection,) = Connections.of({"shop": table}, {"VERSION": "swordfish-6"})
    redactor = results_redactor(connection)
    kept = ["application/json", "account-0123456789012345", "0123456789", "english-us"]
    assert told(redactor, kept) == kept
    assert [told(redactor, f"swordfish-{number}") for number in range(1, 7)] == [
        "${shop.url}",
        "${shop.url}",
        "${shop.headers.X-Api-Key}",
        "${shop.headers.Upstream}",
        "${shop.query.access_token}",
        "${shop.headers.X-Version}",
    ]
