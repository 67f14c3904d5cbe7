"""The page: one HTML file that asks nothing of the network, with the data inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from stepgauge import __version__
from stepgauge.report.charts import accuracy_chart, error_chart, reliability_chart

__all__ = ["report_page"]


def report_page(data: Mapping[str, Any], *, title: str = "stepgauge report") -> str:
    """The report of what ``collect`` gathered, as one HTML document.

    Model text is data within a JSON element, where every ``<`` is escaped, and the script puts it on the page as text
    alone; a content security policy allows this page's own script and style and no request.

    Raises:
        ImportError: jinja2 is missing (``pip install 'stepgauge[report]'``).
    """
    from jinja2 import Environment
    from markupsafe import Markup

    folder = files("stepgauge.report")
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    template = Environment(autoescape=True).from_string(folder.joinpath("page.html").read_text(encoding="utf-8"))
    shown = {key: data[key] for key in ("scorers", "problems")}
    return template.render(
        title=title,
        version=__version__,
        data=data,
        charts=[
            (heading, Markup(svg))  # made by charts.py, which escapes
            for heading, svg in (
                ("Solved by number of candidates", accuracy_chart(data["curves"])),
                ("Reliability", reliability_chart(data["reliability"])),
                ("First wrong step", error_chart(data["first_errors"])),
            )
            if svg
        ],
        payload=Markup(_embedded(shown)),
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _embedded(value: Any) -> str:
    """JSON that cannot leave its element."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
