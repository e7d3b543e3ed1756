"""One rule for which names and values are secret: a connection, a pipeline, the editor and the redactors agree on each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.connections import Connections, results_redactor
from rrext.pipefile.component_reader import literal_secrets
from rrext.secrets.names import _FORMS, HIDDEN, is_secret, masked, secret_in, without_keys
from rrext.secrets.redaction import folded

pytestmark = pytest.mark.promise("secrets:one-rule")

RANDOM = "tr0ub4dor-Zq7Rk2"
SECRET = """
    api_key apiKey APIKEY x-api-key X-API-Key X-Api-Key openaiKey openai_key access_key AWS_ACCESS_KEY_ID
    AWS_SECRET_ACCESS_KEY private_key privateKey private-key signingKey MASTER_KEY_PROD KEY1 key api_keys
    CONNECTION_STRING connectionString conn_str DSN dsn SENTRY_DSN client_secret clientSecret SECRET_KEY_BASE passphrase
    passcode passwd password PASSWORD DB_PASS dbpass db_password_2 PGPASSWORD pwd MYSQL_PWD Authorization
    Proxy-Authorization auth X-Auth basicAuth oauth Cookie Set-Cookie cookies bearer token accessToken access_tokens
    GITHUB_TOKEN github_pat session session_id JSESSIONID session_token sessiontoken jwt credential awsCredentials creds
    Passwort kennwort_db mot_de_passe SharedAccessSignature
    otp refreshToken CSRF-Token secureParameters secret spring.datasource.password password.v1
    sas AZURE_STORAGE_SAS blobSas sasToken mnemonic WALLET_MNEMONIC walletMnemonic seed_phrase seedPhrase recovery-phrase
""".split()  # noqa: SIM905 – a table
OPEN = """
    token_limit tokenLimit max_tokens maxTokens max_token tokens tokenizer tokenization detokenize eos_token
    next_page_token keyboard primary_key primaryKey PRIMARY_KEY foreign_key public_key publickey sort_key laneKey
    partitionKey key_id keyId keywords monkey donkey hotkey turnkey passenger passage bypass compass author authority
    secretary secretariat model name password_policy passwordMinLength token_url tokenType auth_type session_timeout
    cookie_name keyspace database_url url user Accept Content-Type content_type accept-language description pattern path
    passive patient sessions dsname cryptic
    seed random_seed seedNode salt pin pinCode gpio_pin pinned signature function_signature signatureAlgorithm sig
    sas_url SAS_HOST sasLibrary sasha mnemonics phrase
""".split()  # noqa: SIM905 – a table


def of_connection(name: str, value: str = RANDOM) -> bool:
    """Whether a connection takes the value of one of its settings out of the answers of its server."""
    table = {"provider": "mcp", "command": ["x"], "env": {name: value}}
    (connection,) = Connections.of({"c": table}, {})
    return results_redactor(connection).value([value], folded([value])) != [value]


def of_pipeline(name: str, value: str = RANDOM) -> bool:
    """Whether `check` warns of the value of a setting."""
    return next(literal_secrets({name: value}, ""), None) is not None


def of_editor(name: str, value: str = RANDOM) -> bool:
    """Whether the editor hides the value of a setting."""
    return HIDDEN in masked({name: value})[name]


@pytest.mark.parametrize("name", SECRET)
def test_what_opens_something_is_secret_to_all(name: str) -> None:
    assert is_secret(name)
    assert of_connection(name)
    assert of_editor(name)
    assert of_pipeline(name) or name == "secureParameters"  # which RocketRide has encrypted


@pytest.mark.parametrize("name", OPEN)
def test_what_only_sounds_like_it_is_open_to_all(name: str) -> None:
    assert (is_secret(name), of_connection(name), of_pipeline(name), of_editor(name)) == (False, False, False, False)


PARTS = st.sampled_from([*"key token pass auth max Api URL id secret 2 _ - . x public limit".split(), "ü", " "])  # noqa: SIM905


@given(
    st.lists(PARTS, min_size=1, max_size=5).map("".join)
    | st.text(min_size=1, max_size=20).filter(lambda name: name != "secureParameters")
)
def test_all_have_the_same_verdict_on_any_name(name: str) -> None:
    assert {of_connection(name), of_pipeline(name), of_editor(name)} == {is_secret(name)}


@given(
    st.lists(
        st.sampled_from(
            ["api", "key", "token", "secret", "max", "limit", "public", "id", "pass", "word", "user", "access", "db"]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_way_of_writing_a_name_changes_nothing(words: list[str]) -> None:
    ways = ["_".join(words), "-".join(words), "_".join(words).upper(), "".join(word.title() for word in words)]
    assert len({is_secret(way) for way in ways}) == 1


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("postgres://me:hunter-two@db.example/shop", ["hunter-two"]),
        ("Server=db.example;User Id=me;Password=hunter-two;", ["hunter-two"]),
        ("host=db.example user=me password='hunter-two' dbname=shop", ["hunter-two"]),
        ("AccountName=me;AccountKey=aHVudGVyLXR3bw;EndpointSuffix=core", ["aHVudGVyLXR3bw"]),
        ("Bearer hunter-two-three", ["hunter-two-three"]),
        ("ApiKey hunter-two-three", ["hunter-two-three"]),
        ("amqp://me:hunter@two-three@mq.example/", ["hunter@two-three"]),
        ("https://api.example/v1?max_tokens=20000000&api_key=hunter-two-three", ["hunter-two-three"]),
        ("https://me.blob.example/c?sv=2024-11-04&sp=r&sig=Zq7Rk2Lm9Xw4Tb6%3D", ["Zq7Rk2Lm9Xw4Tb6%3D"]),
        ("https://s3.example/a?X-Amz-Date=20260728T000000Z&X-Amz-Signature=5f2a9c0b7d41", ["5f2a9c0b7d41"]),
        ("User=me; Secret='hunter two three'", ["hunter two three"]),
        ("sk-ant-api03-Zq7Rk2Lm9Xw4Tb6Yh1Nc8Vd3Pf5Gj0Sa", []),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG", []),
    ],
)
def test_a_value_that_tells_by_its_form_is_secret_under_any_name(value: str, parts: list[str]) -> None:
    (connection,) = Connections.of({"c": {"provider": "mcp", "command": ["x"], "env": {"DATABASE_URL": value}}}, {})
    for text in (value, *parts):
        shown = results_redactor(connection).value({"a": f"<{text}>"}, folded({"a": f"<{text}>"}))
        assert shown == {"a": "<${c.env.DATABASE_URL}>"}


@pytest.mark.parametrize("url", ["http://me:hunter-two@api.example/x", "https://hunter-two@api.example"])
@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("url", {"provider": "mcp"}),
        ("url", {"provider": "http"}),
        ("openapi", {"provider": "http"}),
        ("url", {"provider": "composio", "integration": "x", "key": "k"}),
    ],
)
def test_a_password_in_the_url_of_a_connection_is_refused_by_name_and_not_repeated(
    key: str, table: dict[str, str], url: str
) -> None:
    assert Connections.of({"c": {**table, key: "https://api.example/me@x?y=@"}}).problems == ()
    connections = Connections.of({"c": {**table, key: url}})
    assert [str(problem) for problem in connections.problems] == [
        f"/c/{key}: a name or password in a URL is not sent: use headers"
    ]
    with pytest.raises(Exception, match=r"not sent: use headers") as raised:
        connections.find("c", table["provider"])
    assert re.search("hunter", f"{raised.value!r} {raised.value.__dict__}") is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv01 b", f"a {HIDDEN} b"),
        ("api_key=sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv01, and gsk_" + "a1B2" * 10, f"api_key={HIDDEN} and {HIDDEN}"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest", f"{HIDDEN}\nrest"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEcut", HIDDEN),
        ("bearer eyJhbGciOiJIUzI1NiJ9.e30.x1", f"bearer {HIDDEN}"),
        (f"host=x Password = {RANDOM};port=1", f"host=x Password = {HIDDEN};port=1"),
        ("a task-force-of-some-30-people=1, max_tokens=12345678a", None),
        ("the bearer of this letter knows=everything", None),
        ("api_key=${ROCKETRIDE_KEY1} token=<yours-1>", None),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_a_text_and_nothing_else(text: str, shown: str | None) -> None:
    assert without_keys({"a": [text, 1]}) == {"a": [text if shown is None else shown, 1]}


@given(st.data(), st.sampled_from(sorted(_FORMS)))
def test_the_key_of_every_service_is_found_by_its_beginning(data: st.DataObject, service: str) -> None:
    pattern = re.compile(_FORMS[service], re.ASCII)
    key = data.draw(st.from_regex(pattern, fullmatch=True).map(str.strip).filter(pattern.fullmatch))
    assert without_keys(f"({key})") == (f"({HIDDEN})" if secret_in(f"({key})", "") else f"({key})")
