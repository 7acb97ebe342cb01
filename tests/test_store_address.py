"""The URL of a FalkorDB server, taken apart."""

from __future__ import annotations

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni.errors import ConfigError
from zapomni.store.address import Address, parse_address

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_a_bare_host_has_the_default_port() -> None:
    assert parse_address("falkor://db") == Address((("db", 6379),))


@given(username=NAMES, password=NAMES)
def test_credentials_may_be_any_text(username: str, password: str) -> None:
    address = parse_address(f"falkor://{quote(username, safe='')}:{quote(password, safe='')}@db:1")
    assert (address.username, address.password) == (username, password)
    assert address.hosts == (("db", 1),)


def test_a_password_needs_no_user() -> None:
    address = parse_address("falkor://:secret@db")
    assert (address.username, address.password) == (None, "secret")


def test_several_hosts_and_brackets_of_an_ipv6_address() -> None:
    address = parse_address("falkor://a:1,b,[::1]:3")
    assert address.hosts == (("a", 1), ("b", 6379), ("::1", 3))
    assert str(address) == "a:1,b:6379,[::1]:3"


def test_options_of_tls_and_sentinels() -> None:
    address = parse_address(
        "falkors://u:p@s1:26379?service=memory&sentinel_password=&ssl_ca_certs=/ca.pem&ssl_check_hostname=false"
    )
    assert address.tls
    assert address.service == "memory"
    assert address.sentinel_credentials == {"username": None, "password": None}
    assert address.tls_options == {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://db", "must begin with falkor"),
        ("db:6379", "must begin with falkor"),
        ("falkor://", "names no host"),
        ("falkor://a,,b", "names no host"),
        ("falkor://db:port", "cannot be read"),
        ("falkor://db:99999", "cannot be read"),
        ("falkor://[::1", "cannot be read"),
        ("falkor://db/3", "no numbered databases"),
        ("falkor://db?timeout=3", "an unknown option; it has service, "),
        ("falkor://me:what?now@db", "in a password, . is written %3F"),
        ("falkor://db?ssl_ca_certs=x", "need falkors"),
        ("falkors://db?ssl_cert_reqs=maybe", "none, optional or required"),
        ("falkors://db?ssl_check_hostname=1", "true or false"),
    ],
)
def test_what_cannot_be_right_is_explained(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_address(url)


@given(st.text())
def test_any_text_is_an_address_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_address(f"falkor://{text}").hosts


@pytest.mark.parametrize(
    "url",
    [
        "falkor://user:secret",
        "falkor://user:secret@db:port",
        "falkor://:secret@db?x=1",
        "falkor://user:is?secret@db",
        "falkor://user:is?secret=1@db",
        "falkor://user:is#secret",
        "falkor://user:[secret",
    ],
)
def test_neither_an_error_nor_what_led_to_it_shows_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__ or error.__context__


def test_an_address_does_not_show_its_passwords() -> None:
    address = parse_address("falkor://user:secret@db?sentinel_password=secret")
    assert "secret" not in f"{address} {address!r}"
