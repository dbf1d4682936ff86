"""Login of the console, and what it shows when its sources fail."""

import base64
import json

import httpx
import pytest
from asking import Down, ask

from serving.console.app import Console, create_app
from serving.http.tokens import ROLES, Tokens
from shadowprice.pacing.price_store import PriceStore

SECRETS = {role: f"an-example-to-{role}" for role in ROLES}


@pytest.fixture
def get(tmp_path, kit):
    file = tmp_path / "tokens"
    file.write_text(json.dumps(SECRETS))

    def read(path: str, **headers: str) -> httpx.Response:
        app = create_app(Console(kit.campaign(), Down(), PriceStore(tmp_path / "prices")), tokens=Tokens(file))
        return ask(app, path, headers=headers)

    return read


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_a_page_opens_with_a_token_of_its_own_role_alone(get, role, scheme):
    shown = basic(SECRETS[role]) if scheme == "Basic" else f"Bearer {SECRETS[role]}"
    assert get("/", authorization=shown).status_code == (200 if role == "view" else 403)


@pytest.mark.parametrize("shown", [None, "Basic !!", basic("a-wrong-password-here"), "Bearer wrong", "Basic"])
def test_a_browser_is_asked_for_the_token_where_it_is_missing_or_wrong(get, shown):
    for path in ("/", "/campaigns/spring", "/campaigns/spring/mix.csv", "/nothing"):
        answer = get(path, **({} if shown is None else {"authorization": shown}))
        assert answer.status_code == 401
        assert answer.headers.get_list("www-authenticate") == ['Basic realm="shadowprice console", charset="UTF-8"']
    assert get("/healthz").status_code == 200
    assert get("/readyz").status_code == 200


def test_pages_name_what_fails_and_show_the_rest(get):
    page = get("/campaigns/spring", authorization=basic(SECRETS["view"]))
    assert page.status_code == 200
    assert "The ledger&#39;s totals cannot be read: http://ledger does not answer." in page.text
    assert "There is no price of this window; answers have the reason stale_price." in page.text
    assert "Dates, levels and terms" in page.text
    mix = get("/campaigns/spring/mix", authorization=basic(SECRETS["view"]))
    assert mix.status_code == 404
    assert "start it with --log-dir" in mix.text


def test_hostile_texts_are_escaped(get):
    evil = "<script>alert(1)</script>"
    answer = get(f"/campaigns/{evil}", authorization=basic(SECRETS["view"]))
    assert answer.status_code == 404
    assert "<script>" not in answer.text
