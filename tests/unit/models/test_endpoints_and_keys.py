"""Where an API begins, which key goes there, and what is known of it."""

from __future__ import annotations

import pytest

from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.models.credentials import Credentials, FromEnv, credentials_for
from plait.models.endpoint import default_endpoint, endpoint_of, kept_address
from plait.models.http.routes import Route, destination_of, is_private, route_of
from plait.models.known_profiles import profile_named, profile_of
from plait.models.pool import RECOVERY_S, CredentialPool
from plait.models.profile_table import PROFILES
from plait.models.transport import Network


class Clock:
    """A clock that is set by hand."""

    now_s = 1_000.0

    def monotonic_s(self) -> float:
        """Return the time that was set."""
        return self.now_s


@pytest.mark.parametrize(
    "address, expected",
    [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions"),
        ("localhost:8080", "http://localhost:8080/v1/chat/completions"),
        ("gpu-box:8000/api", "http://gpu-box:8000/api/chat/completions"),
        ("models.example", "https://models.example/v1/chat/completions"),
        ("https://models.example/v1/chat/completions", "https://models.example/v1/chat/completions"),
        ("https://models.example/chat/completions", "https://models.example/chat/completions"),
        ("https://x.openai.azure.com/openai/deployments/d?api-version=1", None),
        ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
        ("https://openrouter.ai", "https://openrouter.ai/api/v1/chat/completions"),
        ("openrouter", "https://openrouter.ai/api/v1/chat/completions"),
        ("DeepSeek", "https://api.deepseek.com/v1/chat/completions"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_every_form_of_an_address_is_understood(address: str, expected: str | None) -> None:
    """With and without /v1, a slash at the end, a scheme or a query, as a call's own URL or a provider's name."""
    azure = "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
    assert (expected or azure) == endpoint_of(address).url("/chat/completions")


@pytest.mark.parametrize("address", ["ftp://models.example", "http://", "run://model"])
def test_what_is_no_address_is_a_configuration_error(address: str) -> None:
    """The error names what was given and shows a form that works."""
    with pytest.raises(ConfigError) as refused:
        endpoint_of(address)
    assert "http" in refused.value.hint


def test_the_environment_chooses_where_nobody_did() -> None:
    """A base URL of the environment wins, then the one provider whose key is there, then the default."""
    assert "http://here/v1" == default_endpoint({"OPENAI_BASE_URL": "http://here/v1", "GROQ_API_KEY": "k"})
    assert "https://api.groq.com/openai/v1" == default_endpoint({"GROQ_API_KEY": "k"})
    assert "https://openrouter.ai/api/v1" == default_endpoint({"GROQ_API_KEY": "k", "OPENAI_API_KEY": "k"})
    assert "https://openrouter.ai/api/v1" == default_endpoint({})


@pytest.mark.parametrize(
    "address, environ, expected",
    [
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "k", "PLAIT_API_KEY": "p"}, ("k",)),
        ("https://openrouter.ai/api/v1", {"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "o"}, ("k",)),
        ("https://models.example/v1", {"PLAIT_API_KEY": "p", "OPENAI_API_KEY": "o"}, ("p",)),
        ("https://models.example/v1", {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "https://models.example/v1/"}, ("o",)),
        ("http://127.0.0.1:1/v1", {"OPENAI_API_KEY": "o"}, ()),
        ("http://10.0.0.5:1/v1", {"OPENROUTER_API_KEY": "o"}, ()),
        ("http://127.0.0.1:1/v1", {"LOCAL_API_KEY": "l"}, ("l",)),
    ],
)
def test_a_key_goes_only_to_its_own_host(address: str, environ: dict[str, str], expected: tuple[str, ...]) -> None:
    """A provider's variable is for its hosts; any other public host gets what was meant for it by name."""
    assert expected == credentials_for(endpoint_of(address), environ=environ).find(environ)


@pytest.mark.parametrize(
    "address, environ, advice",
    [
        ("https://api.openai.com/v1", {"OPENROUTER_API_KEY": "o"}, "OPENAI_API_KEY"),
        ("https://models.example/v1", {"OPENAI_API_KEY": "o"}, "PLAIT_API_KEY"),
        ("https://api.openai.com.evil.example/v1", {"OPENAI_API_KEY": "o"}, "PLAIT_API_KEY"),
        ("https://evilopenrouter.ai/v1", {"OPENROUTER_API_KEY": "o"}, "PLAIT_API_KEY"),
    ],
)
def test_no_key_is_told_with_the_variable_to_set(address: str, environ: dict[str, str], advice: str) -> None:
    """Another provider's key is never borrowed, and a host that only looks like one is not it."""
    with pytest.raises(ProviderFailed) as missing:
        credentials_for(endpoint_of(address), environ=environ).find(environ)
    assert ("auth", False) == (missing.value.kind, missing.value.retryable)
    assert advice in missing.value.hint


def test_a_named_variable_that_is_empty_is_not_replaced() -> None:
    """Who names the source gets it or an error, never another key."""
    environ = {"PLAIT_API_KEY": "p", "MINE": ""}
    credentials = credentials_for(endpoint_of("http://127.0.0.1/v1"), key_env="MINE", environ=environ)
    with pytest.raises(ProviderFailed) as missing:
        credentials.find(environ)
    assert "MINE" in missing.value.message


def test_a_key_is_not_sent_in_clear_unless_its_user_says_so() -> None:
    """Over plain HTTP a public host gets no key by itself; one that was named may go, and private hosts are spared."""
    environ = {"OPENAI_API_KEY": "k", "PLAIT_API_KEY": "p"}
    plain = endpoint_of("http://api.openai.com/v1")
    with pytest.raises(ProviderFailed) as refused:
        credentials_for(plain, environ=environ).find(environ)
    assert ("auth", "exposed_key") == (refused.value.kind, refused.value.detail)
    assert "https://" in refused.value.hint
    assert ("k",) == credentials_for(plain, key_env="OPENAI_API_KEY", environ=environ).find(environ)
    assert ("p",) == credentials_for(endpoint_of("http://10.0.0.5:1/v1"), environ=environ).find(environ)


def test_an_empty_key_that_was_given_means_none() -> None:
    """Who passes an empty key sends none, whatever the environment holds."""
    environ = {"OPENAI_API_KEY": "k"}
    assert () == credentials_for(endpoint_of("openai"), api_key="", environ=environ).find(environ)


def test_keys_are_in_no_repr() -> None:
    """What holds a key does not show it."""
    credentials = credentials_for(endpoint_of("openai"), api_key="very-secret")
    pool = CredentialPool(["very-secret"])
    assert "very-secret" not in repr(credentials) + repr(pool) + repr(credentials.sources)


def test_a_pool_reads_numbered_variables_up_to_a_gap() -> None:
    """Blanks and repetitions are dropped, the numbering ends at the first that is missing or empty."""
    environ = {"Z": "p,q , p", "Z_1": "r", "Z_2": "q", "Z_3": "", "Z_4": "s"}
    assert ("p", "q", "r") == FromEnv("Z").find(environ)
    pool = CredentialPool.from_env("Z", environ)
    assert (3, "p") == (len(pool), pool.current())


def test_a_pool_goes_round_and_keys_recover() -> None:
    """A spent key rests for the time that was stated, or a minute; when all rest there is none to go on to."""
    clock = Clock()
    pool = CredentialPool(["a", "b"], monotonic_s=clock.monotonic_s)
    assert "b" == pool.spend("a", 10)
    assert "b" == pool.current()
    assert pool.spend("b") is None
    clock.now_s += 10
    assert "a" == pool.spend("b")
    clock.now_s += RECOVERY_S
    assert "b" == pool.spend("a", 5)


def test_a_key_that_another_thread_gave_up_is_not_given_up_twice() -> None:
    """Two requests that were refused with the same key move on by one key, not by two."""
    pool = CredentialPool(["a", "b", "c"])
    assert ("b", "b") == (pool.spend("a"), pool.spend("a"))


def test_marking_and_rotating_are_two_steps() -> None:
    """The current key stays until `rotate`, which says whether there was another one."""
    pool = CredentialPool(["a", "b"])
    pool.mark_exhausted()
    assert "a" == pool.current()
    assert pool.rotate()
    pool.mark_exhausted()
    assert not pool.rotate()
    assert CredentialPool([" ", ""]).current() is None
    assert not CredentialPool([]).rotate()


def test_an_empty_set_of_sources_needs_nothing() -> None:
    """Nothing wanted and nothing there is no error."""
    assert () == Credentials((), is_needed=False).find({})


@pytest.mark.parametrize(
    "host, expected",
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("192.168.1.9", True),
        ("100.64.1.1", True),
        ("gpu-box", True),
        ("printer.local", True),
        ("ollama.internal", True),
        ("8.8.8.8", False),
        ("models.example", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
    ],
)
def test_private_hosts_are_known_by_their_name_or_address(host: str, expected: bool) -> None:
    """Only what cannot be a public host is private."""
    assert expected == is_private(host)


def test_profiles_are_found_by_host_and_name() -> None:
    """Every host of the table leads to its own profile, a private one to local, an unknown one to the careful one."""
    for profile in PROFILES:
        assert profile is profile_named(profile.name)
        hosts = [f"x{host}" if host.startswith(".") else host for host in profile.hosts]
        assert [profile] * len(hosts) == [profile_of(host) for host in hosts]
        assert not profile.base_url or profile is endpoint_of(profile.base_url).profile
    assert ("local", "") == (profile_of("127.0.0.1").name, profile_of("models.example").name)


def test_a_route_goes_through_the_proxy_that_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback goes direct, a named proxy wins, the environment counts where it is trusted."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:p%40ss@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "spared.example")
    via = route_of("https://models.example/v1", Network())
    assert ("proxy.example", 3128, True) == (via.proxy_host, via.proxy_port, via.is_tunnelled)
    assert "p@ss" not in repr(via)
    assert Route("https", "spared.example", 443) == route_of("https://spared.example/v1", Network())
    assert Route("https", "models.example", 443) == route_of("https://models.example", Network(trust_env=False))
    assert Route("http", "127.0.0.1", 80) == route_of("http://127.0.0.1", Network(proxy="http://proxy:1"))
    with pytest.raises(ConfigError):
        route_of("https://models.example", Network(proxy="https://proxy:1"))
    socks = route_of("http://models.example", Network(proxy="socks5h://proxy"))
    assert ("proxy", 1080, True) == (socks.proxy_host, socks.proxy_port, socks.is_tunnelled)


def test_a_target_is_written_as_a_request_line_wants_it() -> None:
    """Characters that no request line may hold are escaped, what was escaped stays, default ports are not named."""
    to = destination_of("https://models.example:443/a b/ü?q=1 2&r=%20", Network(trust_env=False))
    assert ("/a%20b/%C3%BC?q=1%202&r=%20", "models.example") == (to.target, to.host)
    assert "[::1]:8080" == destination_of("http://[::1]:8080/", Network()).host
    assert "xn--bcher-kva.example" == destination_of("https://bücher.example/", Network(trust_env=False)).host


@pytest.mark.parametrize(
    "address, kept",
    [
        ("https://h.example/v1", "https://h.example/v1"),
        ("https://h.example/v1?api-version=1", "https://h.example/v1?api-version=1"),
        ("https://h.example/v1?key=k&api-version=1&Sig=x", "https://h.example/v1?api-version=1"),
        ("https://h.example/v1?access_token=k", "https://h.example/v1"),
        ("run://./program", "run://./program"),
    ],
)
def test_a_secret_in_a_query_is_not_kept(address: str, kept: str) -> None:
    """What a journal and a session hold of an address is without the members that are secret by their names."""
    assert kept == kept_address(address)
