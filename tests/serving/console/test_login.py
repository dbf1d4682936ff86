"""Single sign-on of the console, through the pages of an OpenID provider that runs beside it."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest
import uvicorn
from asking import Down
from looking import browser

from serving.console.app import Console, create_app
from serving.console.login import COOKIE, Provider
from serving.http.tokens import ROLES, Tokens
from shadowprice.errors import InvalidInput
from shadowprice.pacing.price_store import PriceStore

SECRETS = {role: f"an-example-to-{role}" for role in ROLES}
PEOPLE = [
    {"sub": "ann", "email": "ann@example.com", "groups": ["shops", "budget-owners"]},
    {"sub": "bob", "email": "bob@example.com", "groups": ["shops"]},
]
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def issuer(free_port: Callable[[], int]) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    for person in PEOPLE:
        command += ["--user-claims", json.dumps(person)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://localhost:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(f"{address}/.well-known/openid-configuration")
                break
            except httpx.TransportError:
                threading.Event().wait(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def start(kit, tmp_path_factory, free_port: Callable[[], int]) -> Iterator[Callable[[str], str]]:
    """Start a console that signs people in at an issuer; returns its address."""
    folder = tmp_path_factory.mktemp("login")
    (folder / "tokens").write_text(json.dumps(SECRETS))
    servers = []

    def run(issuer: str) -> str:
        port = free_port()
        address = f"http://localhost:{port}"
        provider = Provider(
            issuer=issuer, client_id="c", client_secret="s", public_url=address, allow="groups=budget-owners"
        )
        prices, tokens = PriceStore(folder / "prices"), Tokens(folder / "tokens")
        app = create_app(Console(kit.campaign(), Down(), prices), tokens=tokens, provider=provider)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
        thread = threading.Thread(target=server.run)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            threading.Event().wait(0.02)
        return address

    yield run
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def console(start, issuer) -> str:
    return start(issuer)


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(headers=HTML, follow_redirects=True, timeout=30) as opened:
        yield opened


def sign_in(client: httpx.Client, url: str, **form: str) -> httpx.Response:
    """Open a page as a browser does, and fill in the provider's form."""
    asked = client.get(url)
    assert asked.url.path == "/oauth2/authorize", asked.text
    given = dict(asked.url.params)
    assert (given["code_challenge_method"], given["response_type"]) == ("S256", "code")
    return client.post(asked.url, data=form)


def test_a_person_of_the_group_signs_in_in_a_browser_and_sees_the_page_that_was_asked_for(console, tool):
    with browser(tool("chromium")) as opened:
        page = opened.new_page()
        page.goto(f"{console}/campaigns/spring?a=b")
        page.locator("input[name=sub]").fill("ann")
        page.get_by_role("button", name="Authorize", exact=True).click()
        page.get_by_text("Dates, levels and terms").wait_for()
        assert page.url == f"{console}/campaigns/spring?a=b"
        assert "Signed in as ann@example.com." in page.inner_text("footer")
        [cookie] = [each for each in page.context.cookies() if each["name"] == COOKIE]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Lax"
        page.get_by_role("link", name="Sign out").click()
        page.goto(f"{console}/")
        assert page.url.startswith("http://localhost")
        assert "/oauth2/authorize" in page.url


def test_a_person_without_the_group_and_one_who_refuses_see_nothing(console, client):
    bob = sign_in(client, console, sub="bob")
    assert (bob.status_code, "it needs groups=budget-owners" in bob.text) == (403, True)
    assert client.get(console).url.path == "/oauth2/authorize"
    denied = sign_in(client, console, action="deny")
    assert denied.status_code == 401
    assert "login failed" in denied.text


def test_an_answer_that_was_not_asked_for_and_a_changed_cookie_are_refused(console, client):
    assert client.get(f"{console}/callback", params={"code": "x", "state": "y"}).status_code == 401
    assert sign_in(client, console, sub="ann").status_code == 200
    signed = client.cookies[COOKIE]
    head = "A" if signed[0] != "A" else "B"
    changed = httpx.get(console, headers=HTML, cookies={COOKIE: head + signed[1:]})
    assert (changed.status_code, changed.headers["location"]) == (303, f"{console}/login")
    # A path that looks like another host stays on this one.
    client.cookies.clear()
    assert sign_in(client, f"{console}//elsewhere.example/x", sub="ann").url.host == "localhost"


def test_a_token_stays_the_other_way_in(console, client):
    basic = ("anybody", SECRETS["view"])
    assert "Signed in as view[" in client.get(console, auth=basic).text
    assert client.get(console, auth=("anybody", SECRETS["read"])).status_code == 403
    assert httpx.get(console).status_code == 401
    asked = httpx.get(f"{console}/token", headers=HTML)
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    assert client.get(f"{console}/token", auth=basic).url.path == "/"
    assert httpx.get(f"{console}/healthz").status_code == 200


def test_a_provider_that_is_down_is_named_with_the_way_around_it(start, client, free_port):
    address = start(f"http://localhost:{free_port()}")
    answer = client.get(address)
    assert answer.status_code == 503
    assert re.search(rf"does not answer \(.*{address}/token", answer.text)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"issuer": "login.example.com"}, "--oidc-issuer"),
        ({"public_url": "https://a.example/console"}, "--public-url"),
        ({"allow": "budget-owners"}, "--oidc-allow"),
        ({"client_id": ""}, "--oidc-client-id"),
    ],
)
def test_wrong_settings_are_named(wrong, field):
    right = {"issuer": "https://login.example.com", "client_id": "c", "public_url": "https://a.example", "allow": "a=b"}
    with pytest.raises(InvalidInput) as refused:
        Provider(**(right | wrong), client_secret="s")
    assert refused.value.field == field


def test_single_sign_on_needs_tokens_beside_it(kit, tmp_path):
    provider = Provider(
        issuer="https://a.example", client_id="c", client_secret="s", public_url="https://b.example", allow="a=b"
    )
    with pytest.raises(InvalidInput, match="--token-file"):
        create_app(Console(kit.campaign(), Down(), PriceStore(tmp_path)), provider=provider)
