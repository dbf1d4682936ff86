"""Files of tokens: roles, rotation, and what a wrong file does."""

import json
import os

import pytest

from serving.http.tokens import ROLES, Tokens
from shadowprice.errors import InvalidInput, Unavailable

SECRET = "an-example-of-a-token"
OTHER = "another-example-of-one"


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """Tokens of a file, and how to replace the file as Kubernetes does: by another one under its name."""
    path = tmp_path / "tokens"

    def replace(content):
        text = content if isinstance(content, str) else json.dumps(content)
        beside = tmp_path / "beside"
        beside.write_text(text)
        os.replace(beside, path)
        clock.now += 2.0

    def make(content):
        replace(content)
        return Tokens(path, clock), replace

    return make


def roles(tokens, secret):
    caller = tokens.caller(f"Bearer {secret}")
    return None if caller is None else set(caller.roles)


def test_a_plain_secret_has_all_roles(opened):
    tokens, _ = opened(SECRET + "\n")
    assert roles(tokens, SECRET) == set(ROLES)
    assert roles(tokens, OTHER) is roles(tokens, "") is roles(tokens, SECRET + "\u00fc") is None
    assert tokens.caller(f"Basic {SECRET}") is None
    assert {tokens.secret(role) for role in ROLES} == {SECRET}


def test_secrets_of_roles_are_apart_and_one_secret_may_have_several(opened):
    tokens, _ = opened({"decide": SECRET, "report": [OTHER, SECRET], "read": [OTHER]})
    assert roles(tokens, SECRET) == {"decide", "report"}
    assert roles(tokens, OTHER) == {"report", "read"}
    assert (tokens.secret("report"), tokens.secret("read")) == (OTHER, OTHER)
    names = {tokens.caller(f"bearer {secret}").name for secret in (SECRET, OTHER)}
    assert len(names) == 2
    assert not [name for name in names if SECRET in name or OTHER in name]
    with pytest.raises(Unavailable, match="administer"):
        tokens.secret("administer")


def test_a_caller_has_the_name_of_the_holder_in_the_file(opened):
    tokens, _ = opened({"report": {"refunds-desk": SECRET, "shop-a": [OTHER, OTHER + "2"]}, "read": {"shop-a": OTHER}})
    callers = {secret: tokens.caller(f"Bearer {secret}") for secret in (SECRET, OTHER, OTHER + "2")}
    assert [each.name for each in callers.values()] == ["refunds-desk", "shop-a", "shop-a"]
    assert [set(each.roles) for each in callers.values()] == [{"report"}, {"report", "read"}, {"report"}]
    assert tokens.secret("report") == SECRET


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"report": {"ann\nbob": SECRET}}, "is no name"),
        ({"report": {"ann": SECRET}, "read": {"bob": SECRET}}, "'ann' and 'bob'"),
    ],
)
def test_a_name_that_could_not_be_told_apart_in_an_audit_is_refused(opened, content, why):
    with pytest.raises(InvalidInput, match=why) as refused:
        opened(content)
    assert SECRET not in str(refused.value)


def test_tokens_are_read_again_when_their_file_changes(opened, clock):
    tokens, replace = opened({"decide": SECRET})
    replace({"decide": [OTHER, SECRET]})
    assert roles(tokens, SECRET) == roles(tokens, OTHER) == {"decide"}
    assert tokens.secret("decide") == OTHER
    replace({"decide": OTHER})
    assert roles(tokens, SECRET) is None
    replace({"decide": SECRET})
    clock.now -= 1.5  # less than a second after the last look
    assert roles(tokens, SECRET) is None


@pytest.mark.parametrize("wrong", ["", "short", "{", "{}", {"decide": "short"}, {"decides": SECRET}, {"decide": [7]}])
def test_a_file_that_becomes_wrong_is_logged_once_and_the_last_tokens_stay(opened, caplog, clock, wrong):
    tokens, replace = opened({"decide": SECRET})
    replace(wrong)
    for _ in range(3):
        assert roles(tokens, SECRET) == {"decide"}
        clock.now += 2.0
    assert caplog.text.count("the tokens did not change") == 1
    assert SECRET not in caplog.text
    with pytest.raises(InvalidInput) as caught:
        opened(wrong)
    assert SECRET not in str(caught.value)
    replace({"decide": OTHER})
    assert roles(tokens, OTHER) == {"decide"}


def test_a_file_that_is_gone_leaves_the_last_tokens(opened, tmp_path, clock):
    tokens, _ = opened(SECRET)
    (tmp_path / "tokens").unlink()
    clock.now += 2.0
    assert roles(tokens, SECRET) == set(ROLES)
