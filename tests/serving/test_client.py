"""The client shows the predictor's token over a real connection."""

import re
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest
import uvicorn

from serving.http.access import Access
from serving.http.handler import RequestHandler
from serving.http.tokens import Tokens
from serving.protocol import OUTPUTS
from shadowprice.client import DecisionClient
from shadowprice.errors import InvalidRequest, Unavailable

TOKEN = "a-token-of-the-test"
VALUES = {"INT64": 7, "INT32": 1, "FP64": 0.5, "BYTES": "none", "BOOL": True}


async def answer(body, caller):
    outputs = [{"name": name, "data": [VALUES[datatype]]} for name, datatype in OUTPUTS.items()]
    parameters = {"price_version": 3, "model_version": "m", "price_age_seconds": 1.0, "degraded": False}
    return orjson.dumps({"outputs": outputs, "parameters": parameters})


@pytest.fixture
def url(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    front = RequestHandler(None, {"/v2/models/spring/infer": answer}, Access(lambda *_: "decide", Tokens(file)), 5.0)
    server = uvicorn.Server(uvicorn.Config(front, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_predictor_answers_who_shows_its_token_and_refuses_the_others(url):
    asked = ["r"], ["nobody"], ["customer"]
    with DecisionClient(url, "spring", TOKEN) as client:
        found = client.decide(*asked)
    # The versions of the decision are one matter, those in use now another.
    assert (found.price_version.tolist(), found.model_version.tolist(), found.repeat.tolist()) == (
        [7],
        ["none"],
        [True],
    )
    assert (found.active_price_version, found.active_model_version) == (3, "m")
    for token in (None, "another-token-here"):
        with DecisionClient(url, "spring", token) as client, pytest.raises(InvalidRequest, match="token"):
            client.decide(*asked)


@pytest.mark.parametrize(("status", "wait"), [(429, "7"), (503, "1"), (408, "")])
def test_a_refusal_for_now_is_unavailable_with_its_wait(status, wait):
    class Busy(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            if wait:
                self.send_header("retry-after", wait)
            self.end_headers()
            self.wfile.write(b'{"error": "too many calls"}')

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with DecisionClient(f"http://127.0.0.1:{server.server_port}", "spring") as client:
            told = f"answered {status}: too many calls" + (f"; send it again after {wait} s" if wait else "")
            with pytest.raises(Unavailable, match=f"{told}$"):
                client.decide(["r"], ["nobody"], ["customer"])
        thread.join()


def test_the_example_of_the_reference_runs_on_the_services(world, capsys):
    world.publish(price=0.004)
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "decision-service.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for address, service in (("http://localhost:8080", world.predictor), ("http://localhost:8081", world.ledger)):
        assert address in code
        code = code.replace(address, service.url)
    exec(compile(code, "decision-service.md", "exec"), {})
    answers, spent = capsys.readouterr().out.splitlines()
    assert "optimal" in answers
    assert int(spent) >= 0
