"""Checks of the files that a user writes: a mapping, a file of tokens."""

from pathlib import Path

from cli.doctor.finding import Finding, Findings, Target
from shadowprice.errors import ShadowpriceError


def mapping(target: Target) -> Findings:
    """Check that the mapping can be read and that the files it names exist."""
    if target.mapping is None:
        return
    from shadowprice.mapping import read_mapping

    try:
        read = read_mapping(target.mapping)
    except ShadowpriceError as error:
        yield Finding("mapping", str(error), f"correct {target.mapping}")
        return
    files = {part.source.file for parts in read.tables.values() for part in parts if part.source.file}
    for file in sorted(files):
        path = read.folder / file
        if not (path.exists() or (not Path(file).is_absolute() and any(read.folder.glob(file)))):
            mend = f"put it into {read.folder} or correct its name in {target.mapping.name}"
            yield Finding("mapping", f"the input file {file} is missing", mend)


def tokens(target: Target) -> Findings:
    """Check that the token file exists, has valid tokens and is hidden from other users."""
    path = target.token_file
    if path is None:
        return
    if not path.is_file():
        yield Finding(
            "tokens", f"the token file {path} is missing", "write it or correct SHADOWPRICE_LEDGER_TOKEN_FILE"
        )
        return
    if path.stat().st_mode & 0o007:
        yield Finding("tokens", f"the token file {path} is open to every user", f"run chmod 600 {path}")
    from serving.http.tokens import Tokens

    try:
        Tokens(path)
    except ShadowpriceError as error:
        yield Finding("tokens", str(error), "write the roles and tokens as the reference of the service describes")
