"""Several campaigns of one release: what their services, jobs, alerts and pages are told, by what they read."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError
from rendering import CHART, merged, pods, render, rendered, values_of

from operations.common.workspace import FIELDS, read_campaign
from serving.console.__main__ import ConsoleSettings
from serving.ledger.__main__ import LedgerSettings
from serving.portfolio.__main__ import MoveSettings
from serving.predictor.config import Config
from shadowprice.campaign import Budget, Campaign, Terms

SEVERAL = values_of(CHART / "ci" / "campaigns-values.yaml")
SINGLE = values_of(CHART / "ci" / "minimal-values.yaml")
NAMES = ["Winter_2027", "autumn", "spring"]


def named(values: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Objects of a kind by name."""
    return {entry["metadata"]["name"]: entry for entry in render(values) if entry["kind"] == kind}


def container(entry: dict[str, Any], kind: str = "containers") -> dict[str, Any]:
    """The only container of an object's pod."""
    [pod] = pods(entry)
    [found] = pod["spec"][kind]
    return dict(found)


def environment(entry: dict[str, Any]) -> dict[str, str]:
    """Variables of it."""
    return {each["name"]: each.get("value", "the key of a secret") for each in container(entry)["env"]}


def write_campaign(folder: Path, name: str) -> Campaign:
    """A campaign in the folder of its name."""
    campaign = Campaign(
        name=name,
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=1000),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    (folder / name).mkdir(parents=True)
    (folder / name / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    return campaign


def test_predictor_and_ledger_serve_the_named_campaigns_of_the_workspace(tmp_path: Path) -> None:
    [predictor] = named(SEVERAL, "InferenceService").values()
    config = Config.parse([], environment(predictor) | {"SHADOWPRICE_CAMPAIGNS": str(tmp_path)})
    for name in (*NAMES, "other"):
        write_campaign(tmp_path, name)
    assert [each.campaign_file.parent.name for each in config.workspaces()] == NAMES
    ledger = LedgerSettings.parse([], environment(named(SEVERAL, "Deployment")["seasons-ledger"]))
    assert (ledger.campaigns, ledger.campaign_names) == (Path("/workspace"), ",".join(NAMES))
    assert ledger.campaign_file == Path()
    own = ledger.of("autumn")
    assert (own.db, own.log_dir) == (Path("/ledger/db/autumn.db"), Path("/ledger/served/autumn"))
    shared = merged(SEVERAL, "ledger", {"store": "redis", "redis": {"existingSecret": "ledger-redis"}})
    witness = LedgerSettings.parse([], environment(named(shared, "Deployment")["seasons-ledger"])).of("autumn").witness
    assert witness == Path("/ledger/witness/autumn.json")


def test_each_campaign_is_solved_again_by_jobs_of_its_own() -> None:
    jobs, usual = named(SEVERAL, "CronJob"), ("2 * * * *", "5-55/5 23 * * *")
    found = {
        (environment(job)["SHADOWPRICE_WORKSPACE"], job["spec"]["schedule"])
        for name, job in jobs.items()
        if name.startswith("seasons-resolve")
    }
    assert found == {
        ("/workspace/autumn", "4 * * * *"),
        *((f"/workspace/{name}", schedule) for name in ("Winter_2027", "spring") for schedule in usual),
    }
    assert all(len(name) <= 52 for name in jobs)
    by_kubeflow = SEVERAL | {"resolve": {"by": "kfp"}, "campaigns": {"autumn": {}, "spring": {}}}
    hooks = named(merged(by_kubeflow, "workspace.subPath", "growth"), "Job")
    ended = container(hooks.pop("seasons-unschedule"))["args"]
    assert ended[3:6] == ["unschedule", "seasons-resolve-autumn", "seasons-resolve-spring"]
    assert {(name, *_given(hook, "--name", "--sub-path")) for name, hook in hooks.items()} == {
        (f"seasons-schedule-{name}", f"seasons-resolve-{name}", f"growth/{name}") for name in ("autumn", "spring")
    }


def _given(entry: dict[str, Any], *flags: str) -> list[str]:
    arguments = [each.partition("=") for each in container(entry)["args"]]
    return [next(value for name, _, value in arguments if name == flag) for flag in flags]


def test_a_long_name_is_cut_to_what_a_cron_job_may_have_and_stays_its_own() -> None:
    long = {"a" * 60: {}, "a" * 59 + "b": {}}
    jobs = named(SEVERAL | {"campaigns": long}, "CronJob")
    assert len(jobs) == 2 * 4 + 1
    jobs |= named(SINGLE | {"campaign": "c" * 60}, "CronJob")
    assert len(jobs) == 2 * 4 + 1 + 2
    assert {len(name) for name in jobs} <= set(range(53))


def test_watch_canary_and_console_read_the_folders_of_their_campaign() -> None:
    jobs = named(SEVERAL, "CronJob")
    for name in NAMES:
        end = name.lower().replace("_", "-")
        [canary] = [job for each, job in jobs.items() if each == f"seasons-promote-{end}"]
        assert _given(canary, "--workspace", "--log") == [f"/workspace/{name}", f"/ledger/served/{name}"]
        console = named(SEVERAL, "Deployment")[f"seasons-console-{end}"]
        service = named(SEVERAL, "Service")[f"seasons-console-{end}"]
        assert environment(console)["SHADOWPRICE_CAMPAIGN_FILE"] == f"/workspace/{name}/campaign.json"
        assert environment(console)["SHADOWPRICE_LEDGER_LOG_DIR"] == f"/ledger/served/{name}"
        settings = ConsoleSettings.parse([], environment(console))
        assert (settings.campaigns, settings.campaign_names) == (Path("/workspace"), ",".join(NAMES))
        assert service["spec"]["selector"] == console["spec"]["selector"]["matchLabels"]
        assert service["spec"]["selector"]["shadowprice/campaign"] == end
    retrained = jobs["seasons-watch-winter-2027"]
    assert "--name=winter-retrain" in container(retrained)["args"]
    assert "--name" not in "".join(container(jobs["seasons-watch-autumn"])["args"])


def test_fields_of_all_campaigns_and_of_one_reach_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = merged(SEVERAL, "campaigns.autumn.fields", {"exploration": 0.02})
    given |= {"campaignFields": {"alarm_exploration": 0.1}}
    for name in NAMES:
        write_campaign(tmp_path, name)
    everywhere = [
        *named(given, "CronJob").values(),
        *named(given, "Deployment").values(),
        *named(given, "InferenceService").values(),
    ]
    texts = {
        each["value"]
        for entry in everywhere
        for pod in pods(entry)
        for part in pod["spec"].get("initContainers", pod["spec"]["containers"])
        for each in part["env"]
        if each["name"] == FIELDS
    }
    [text] = texts
    monkeypatch.setenv(FIELDS, text)
    found = {name: read_campaign(tmp_path / name) for name in NAMES}
    assert {name: (each.exploration, each.alarm_exploration) for name, each in found.items()} == {
        "autumn": (0.02, 0.1),
        "spring": (0.0, 0.1),
        "Winter_2027": (0.0, 0.1),
    }


def test_the_job_that_moves_budget_is_a_program_that_reads_all_campaigns_and_shows_tokens_to_read_and_move() -> None:
    terms = {"name": "company", "cap": 500_000, "largest_move": 20_000}
    values = merged(SEVERAL, "campaigns.autumn.fields", {"portfolio": terms})
    job = named(values, "CronJob")["seasons-portfolio"]
    assert container(job)["args"] == ["python", "-m", "serving.portfolio"]
    settings = MoveSettings.parse([], environment(job))
    assert (settings.campaigns, settings.campaign_names) == (Path("/workspace"), ",".join(NAMES))
    assert (
        settings.ledger_url == environment(named(values, "CronJob")["seasons-resolve-autumn"])["SHADOWPRICE_LEDGER_URL"]
    )
    assert json.loads(environment(job)[FIELDS])["autumn"] == {"portfolio": terms}
    [pod] = pods(job)
    [token] = [each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token"]
    [secret] = [each for each in render(values) if each["kind"] == "Secret"]
    assert set(json.loads(b64decode(secret["data"][token["items"][0]["key"]]))) == {"read", "move"}
    with pytest.raises(HelmError, match="needs campaigns"):
        rendered(merged(SINGLE, "portfolio.enabled", True))


def test_alerts_dashboard_and_test_are_of_every_campaign() -> None:
    [rules] = named(SEVERAL, "PrometheusRule").values()
    groups = {group["name"]: group["rules"] for group in rules["spec"]["groups"]}
    assert set(groups) == {f"shadowprice-{name}-{kind}" for name in NAMES for kind in ("records", "alerts")}
    for name in NAMES:
        for rule in groups[f"shadowprice-{name}-alerts"]:
            assert f'campaign="{name}"' in rule["expr"]
            assert not any(f'campaign="{other}"' in rule["expr"] for other in NAMES if other != name)
    single = {
        group["name"]: len(group["rules"])
        for entry in named(SINGLE, "PrometheusRule").values()
        for group in entry["spec"]["groups"]
    }
    # An alert more where the watch is on, and one where there is a stream.
    assert len(groups["shadowprice-autumn-alerts"]) == single["shadowprice-spring-alerts"] + 2
    [boards] = [entry for name, entry in named(SEVERAL, "ConfigMap").items() if name.endswith("-dashboards")]
    [board] = [json.loads(text) for text in boards["data"].values()]
    [variable] = [each for each in board["templating"]["list"] if each["name"] == "campaign"]
    assert variable["current"] == {"text": NAMES, "value": NAMES}
    [test] = named(SEVERAL, "Pod").values()
    asked = [each for part in test["spec"]["containers"] for each in part["args"] if each.startswith("--campaign=")]
    assert asked == [f"--campaign={name}" for name in NAMES]


def test_the_notes_name_every_campaign_and_how_to_solve_it_now() -> None:
    [notes] = [text for name, text in rendered(SEVERAL).items() if name.endswith("NOTES.txt")]
    assert "Campaigns Winter_2027, autumn, spring are deployed as InferenceService seasons" in notes
    for name in NAMES:
        job = f"seasons-resolve-{name.lower().replace('_', '-')}"
        assert f"create job --from=cronjob/{job} {job}-now" in notes


def test_a_release_of_several_campaigns_is_called_as_the_release() -> None:
    free = {key: value for key, value in SEVERAL.items() if key != "nameOverride"}
    assert list(named(free, "InferenceService")) == ["camp"]


def test_all_that_is_wrong_with_campaigns_is_one_sentence() -> None:
    wrong = SEVERAL | {
        "campaign": "summer",
        "campaigns": {"a_b": {}, "a-b": {}},
        "training": {"rayJob": {"enabled": True, "campaign": "summer"}},
        "watch": {"enabled": True, "retrain": {"schedule": "retrain"}},
        "features": {"online": {"redis": {"existingSecret": ""}}},
    }
    with pytest.raises(HelmError) as refused:
        render(wrong)
    [sentence] = [line for line in str(refused.value).splitlines() if "rename campaign" in line]
    for part in (
        "set features.online.redis.existingSecret",
        "set campaign (one) or campaigns (several), not both",
        "rename campaign a-b or a_b",
        "set campaigns.<name>.retrainSchedule",
        "set training.rayJob.campaign (the one of a-b, a_b to train)",
    ):
        assert part in sentence
    with pytest.raises(HelmError, match=r"campaigns: .*-b.*, .*a b.* cannot name a campaign; use letters"):
        render(SEVERAL | {"campaigns": {"a b": {}, "-b": {}, "c": {}}})


def test_training_of_one_of_several_campaigns_writes_to_its_folder() -> None:
    trained = SEVERAL | {"training": {"rayJob": {"enabled": True, "campaign": "autumn"}}}
    [job] = named(trained, "RayJob").values()
    assert "--set=workspace=/workspace/autumn " in job["spec"]["entrypoint"] + " "
