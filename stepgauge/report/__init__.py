"""A report people look at: one self-contained HTML file with every candidate's steps and scores."""

from stepgauge.report.collect import collect
from stepgauge.report.page import report_page

__all__ = ["collect", "report_page"]
