"""The page at ``/``: paste a solution and see each step's score."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from stepgauge.report.page import policy_hash

__all__ = ["add_page"]


def add_page(app: FastAPI) -> None:
    """Answer ``GET /`` with the page. It holds no data and asks for the token itself, so it needs none."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        text, policy = _page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})


@cache
def _page() -> tuple[str, str]:
    """The document, and the policy that allows it its own script, style and server."""
    here, shared = files("stepgauge.serve"), files("stepgauge.report")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    style = shared.joinpath("page.css").read_text(encoding="utf-8")
    text = here.joinpath("page.html").read_text(encoding="utf-8")
    text = text.replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; script-src '{policy_hash(script)}'; style-src '{policy_hash(style)}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy
