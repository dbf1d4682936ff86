"""Mappings and files that mean harm: they write nothing, read nothing else, and end soon in one sentence."""

import errno
import gzip
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from harmful import long_pages, many_rows, repeated

import cli.main as command
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput, ShadowpriceError, Unavailable
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.mapping.expressions import columns_of
from shadowprice.mapping.files import blocks
from shadowprice.mapping.rows import Rows

LOG = "no,who,sent,worth,used\n" + "".join(
    f"r{k},K{k % 7},2026-03-{1 + k % 20:02}T10:00Z,{2 + k % 2}.50,{k % 2}\n" for k in range(20)
)
MAPPING = """currency: EUR
sources:
  log: {source}
campaign: {{campaign_id: spring, starts_at: 2026-04-01T00:00Z, hours: 24, budget_name: coupons, budget_form: total,
  budget_limit: 100, cost_basis_customer: on_response}}
tables:
  exposure:
    columns: {{request_id: no, account_id: who, face_value: worth, decided_at: sent, propensity: {{constant: 0.5}},
      redeemed: used, observed_at: {{column: sent, plus_days: 2}}{columns}}}
    where: {where}
"""


def write(folder: Path, source: str = "log.csv", where: str = "'true'", columns: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    if not (folder / "log.csv").exists():
        (folder / "log.csv").write_text(LOG)
    (folder / "mapping.yaml").write_text(MAPPING.format(source=source, where=where, columns=columns))
    return folder / "mapping.yaml"


def refusal(path: Path, **options: Any) -> str:
    started = time.perf_counter()
    with pytest.raises(ShadowpriceError) as caught:
        map_tables(read_mapping(path), **options)
    assert time.perf_counter() - started < 60
    return str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "true); COPY (SELECT 1) TO 'stolen.csv'; --",
        "true; COPY (SELECT 1) TO 'stolen.csv'",
        "no IN (SELECT content FROM read_text('/etc/hostname'))",
        "EXISTS (FROM glob('/*'))",
        "no = (FROM read_csv('log.csv') LIMIT 1)",
        "true UNION SELECT 1",
        "true ORDER BY no",
        "true FROM source_log",
        "getenv('HOME') = ''",
        "current_setting('temp_directory') = ''",
        "nextval('s') > 0",
        "random() > 0.5",
        "sleep_ms(100000) IS NULL",
        "unnest([1, 2]) = 1",
        "columns(*) = ''",
        "$1",
        "(" * 200_000,
        "- " * 100_000,
        "(- " * 900,
        "a" * 200_000 + "(",
    ],
)
def test_sql_of_a_mapping_is_one_expression_over_its_columns(sql: str, tmp_path: Path) -> None:
    text = '"' + sql.replace('"', '""') + '"'
    for path in (
        write(tmp_path, where=text),
        write(tmp_path, columns=f", c_stolen: {{expression: {text}}}"),
    ):
        assert "tables.exposure." in refusal(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log.csv", "mapping.yaml"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("CASE WHEN Used = '1' THEN no ELSE who END -- or nobody", {"Used", "no", "who"}),
        ("list_sum(list_transform([a, b], each -> each * c))", {"a", "b", "c"}),
        ("strptime(sent, '%d.%m.%Y') + INTERVAL 3 DAY", {"sent"}),
        ("worth BETWEEN 1 AND 3 OR NOT no LIKE 'r%' OR who IN ('a', 'b')", {"worth", "no", "who"}),
        ("row_number() OVER (PARTITION BY who ORDER BY sent)", {"who", "sent"}),
        ('"Wert in €"::DOUBLE', {"Wert in €"}),
        ("'constant'", set()),
    ],
)
def test_expressions_that_people_write_are_taken(expression: str, names: set[str]) -> None:
    with duckdb.connect() as db:
        assert columns_of(db, expression, "where") == names


def test_a_mapping_is_below_its_folder_or_the_working_folder_unless_a_flag_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, folder = tmp_path / "secret.csv", tmp_path / "work" / "inner"
    secret.write_text(LOG)
    folder.mkdir(parents=True)
    (folder / "linked.csv").symlink_to(secret)
    (tmp_path / "work" / ".hidden").mkdir()
    (tmp_path / "work" / ".hidden" / "log.csv").write_text(LOG)
    monkeypatch.chdir(tmp_path / "work")
    for source in ("../../secret.csv", str(secret), "linked.csv", "../../*.csv", "../.hidden/log.csv", "/etc/*"):
        path = write(folder, f'"{source}"')
        assert "is outside of the folder of the mapping" in refusal(path)
        assert command.main(["check", str(path)]) == 1
        assert "allow it with `shadowprice check --outside`" in capsys.readouterr().err
    path = write(folder, "../../secret.csv")
    assert command.main(["check", str(path), "--outside"]) == 0
    assert load("mapping", data=str(path), outside=True).tables.rows()["exposure"] == 20
    # What init writes for a file beside its folder can be read from where it was written.
    (tmp_path / "work" / "log.csv").write_text(LOG)
    assert map_tables(read_mapping(write(folder, "../log.csv"))).rows()["exposure"] == 20
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    assert "is outside" in refusal(path.parent / "mapping.yaml")


def test_databases_are_read_only_and_reach_no_file(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.execute(f"CREATE TABLE log AS FROM read_csv('{_log(tmp_path)}', all_varchar = true)")
    assert map_tables(read_mapping(write(tmp_path, "{attach: shop.duckdb, query: SELECT * FROM log}"))).rows()
    before = (tmp_path / "shop.duckdb").read_bytes()
    for query in (
        "SELECT * FROM log; DROP TABLE log",
        "DROP TABLE log",
        "COPY log TO 'stolen.csv'",
        "SELECT * FROM read_csv('log.csv')",
        "SELECT * FROM 'log.csv'",
        "SELECT content AS no FROM read_text('/etc/hostname')",
        "ATTACH 'other.duckdb'",
    ):
        assert "sources.log.query" in refusal(write(tmp_path, f'{{attach: shop.duckdb, query: "{query}"}}'))
    assert "is outside" in refusal(write(tmp_path / "inner", "{attach: ../shop.duckdb, table: log}"))
    assert "is outside" in refusal(write(tmp_path, "{attach: host=example.org, type: postgres, table: log}"))
    assert (tmp_path / "shop.duckdb").read_bytes() == before
    assert not list(tmp_path.glob("stolen*"))


def _log(folder: Path) -> Path:
    (folder / "log.csv").write_text(LOG)
    return folder / "log.csv"


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "more than 20000 values"),
        ("sources: " + "[" * 100_000, "nested too deeply"),
        ("sources: " + "{a: " * 30 + "}" * 30, "nested too deeply"),
        ("a: &a {b: *a}", "nested too deeply"),
        ("sources: !!python/object/apply:os.system [touch stolen]", "python/object/apply:os.system is a tag"),
        ("currency: !!int 5", "is a tag"),
        ("currency: EUR\ncurrency: USD", "line 2: the key 'currency' stands twice"),
        ("{[a]: b}", "a key must be a single value"),
        ("x" * 300_000, "has more than 262144 bytes"),
        ("a: \0", "cannot be read"),
        ("currency: [", "cannot be read"),
    ],
)
def test_a_harmful_description_is_refused_soon(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(text)
    started = time.perf_counter()
    with pytest.raises(InvalidInput, match=r"mapping\.yaml: cannot be read") as caught:
        read_mapping(tmp_path / "mapping.yaml")
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert time.perf_counter() - started < 20
    assert not list(tmp_path.glob("stolen"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/dev/stdin")]
)
@pytest.mark.parametrize("name", ["pipe.csv", "pipe.parquet", "pipe.csv.gz", "mapping.yaml"])
def test_pipes_and_devices_are_no_files(make: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    make(tmp_path / name)
    if name == "mapping.yaml":
        with pytest.raises(InvalidInput, match="is not a regular file"):
            read_mapping(tmp_path / name)
        return
    assert "is not a regular file" in refusal(write(tmp_path, name), outside=True)
    assert command.main(["init", str(tmp_path / "new"), "--trials", str(tmp_path / name)]) == 1


@pytest.mark.parametrize("make", [repeated, long_pages, many_rows])
def test_a_small_parquet_file_that_holds_gigabytes_is_refused_within_memory(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").stat().st_size < 4_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refusal(write(tmp_path, "log.parquet", columns=", c_a: no, c_b: who"))
    assert "GiB in" in message or "has no column" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000


def test_a_small_archive_that_holds_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "FREE_BYTES", 1 << 20)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(LOG.encode() + b"r,K,2026-03-01T10:00Z,2.50,0\n" * 300_000))
    assert "which no table of offers does" in refusal(write(tmp_path, "log.csv.gz"))


def test_a_record_without_an_end_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG + "x" * 10_000_000)
    assert "line 22 begins a record of more than 1048576 bytes" in refusal(write(tmp_path))


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(rows: Rows) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Rows, "batches", full)
    with pytest.raises(Unavailable, match=r"there is no space left for temporary files in .*TMPDIR"):
        map_tables(read_mapping(write(tmp_path)))
