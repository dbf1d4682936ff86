"""The figures of a report beside its page, so that the page can be written again."""

from pathlib import Path

from shadowprice.documents import read_document
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole
from shadowprice.reports.data import ReportData
from shadowprice.reports.one_page import write_one_page
from shadowprice.reports.report import write_report
from shadowprice.storage import from_json, to_json

PAGE = "report.html"
FIGURES = "report.json"
MOST_FIGURES = 1 << 30
"""Bytes of the figures at most."""


def store_report(data: ReportData, folder: Path) -> Path:
    """Write the report, its figures and the one-page summary into a folder and return the report."""
    write_whole(folder / FIGURES, to_json(data))
    write_one_page(data, folder, PAGE)
    return write_report(data, folder / PAGE)


def rewrite_report(run: Path, page: Path | None = None) -> Path:
    """Write the page of stored figures again and return it.

    Args:
        run: folder that :func:`store_report` wrote to, or a file of figures, such as that of the job evaluate.
        page: file that gets the page; ``report.html`` beside the figures by default.

    Raises:
        NotFound: there are no figures.
        InvalidInput: the file does not hold the figures of a report.
    """
    figures = run / FIGURES if run.is_dir() else run
    try:
        text = read_document(figures, MOST_FIGURES)
    except OSError as error:
        raise NotFound(f"{figures} cannot be read: {error.strerror}; name the folder of a finished run") from error
    except ValueError as error:
        raise InvalidInput(str(error), field=str(figures)) from error
    return write_report(from_json(ReportData, text), page or figures.with_name(PAGE))
