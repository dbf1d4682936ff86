"""Page that shows the OpenAPI description of a service, without content from another host."""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

PAGE = "/docs"
ASSETS = "/docs-assets"
PARAMETERS: dict[str, list[str]] = {"supportedSubmitMethods": []}
"""The page only shows: a POST that a browser's page sends is refused."""


def add_docs(app: FastAPI) -> None:
    """Add the page ``/docs`` and its files; addresses are relative, so a proxy may put a prefix ahead."""
    assets = ASSETS.lstrip("/")

    async def page(_: Request) -> Response:
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title=app.title,
            swagger_js_url=f"{assets}/swagger-ui-bundle.js",
            swagger_css_url=f"{assets}/swagger-ui.css",
            swagger_favicon_url=f"{assets}/favicon.png",
            swagger_ui_parameters=PARAMETERS,
        )

    app.add_route(PAGE, page, include_in_schema=False)
    app.mount(ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")))
