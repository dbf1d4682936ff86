"""``shadowprice codes``: give the rows of a list their codes, and write the file that a tool imports."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import typer

from operations.common.workspace import read_campaign
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.lists.codes import CodePool
from shadowprice.lists.table import SCHEMA, check_format, list_file
from shadowprice.lists.templates import TEMPLATES, as_import, terms_of


def codes(
    rows: Annotated[Path, typer.Argument(metavar="LIST", help="list that `shadowprice decide` wrote")],
    campaign: Annotated[Path, typer.Option(help="file of the campaign, or its workspace")],
    pool: Annotated[Path, typer.Option(help="CSV file of codes: code, and offer or level where codes differ by it")],
    out: Annotated[Path, typer.Option(help="file for the rows with their codes, .parquet or .csv")],
    template: Annotated[str, typer.Option(help=f"CSV columns that a tool imports: {', '.join(TEMPLATES)}")] = "",
    rest: Annotated[
        Path | None, typer.Option(help="CSV file that gets the unused codes, which leave the pool for good")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give each row of a list that has an incentive one code of a pool; the same list gets the same codes again."""
    check_format(out, "out")
    if template and out.suffix != ".csv":
        raise InvalidInput("must end in .csv, as tools import it", field="out")
    given = read_list(rows)
    known = read_campaign(campaign)
    with CodePool(pool, known.name) as opened:
        if template:
            as_import(given.slice(0, 0), template)  # refuses a name before a code is given
        coded = opened.assign(given)
        written = as_import(coded, template, terms_of(known)) if template else coded
        with list_file(out, written.schema) as write:
            write(written)
        left = None
        if rest is not None:
            left = opened.hand_back()
            columns = {"code": [code for code, _ in left]}
            if opened.matched_by:
                columns[opened.matched_by] = [offer for _, offer in left]
            table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
            with list_file(rest, table.schema) as write:
                write(table)
    with_code = coded.filter(pc.not_equal(coded["code"], ""))
    facts = {
        "rows": coded.num_rows,
        "codes": with_code.num_rows,
        "by_offer": dict(sorted(Counter(with_code["offer_id"].to_pylist()).items())),
        "out": str(out),
        **({} if left is None else {"handed_back": len(left)}),
    }
    if as_json:
        print(json.dumps(facts))
        return
    offers = ", ".join(f"{offer} {number:,}" for offer, number in facts["by_offer"].items())
    print(f"{out}: {with_code.num_rows:,} codes for {coded.num_rows:,} accounts ({offers or 'nothing to redeem'})")
    if left is not None:
        print(f"{rest}: {len(left):,} codes that no account has; they left the pool")


def read_list(path: Path) -> pa.Table:
    """Read a list, parquet or CSV by its extension.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it cannot be read, or lacks a column of a list.
    """
    check_format(path, "list")
    if not path.exists():
        raise NotFound(f"{path}: there is no such list; `shadowprice decide` writes one")
    try:
        if path.suffix == ".csv":
            types = pa.csv.ConvertOptions(column_types=SCHEMA)
            table = pa.csv.read_csv(path, convert_options=types)
        else:
            table = pq.read_table(path)
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise InvalidInput(f"is no list: {error}; `shadowprice decide` writes one", field=str(path)) from error


app = application(codes)
main = main_of(app, "shadowprice codes")
