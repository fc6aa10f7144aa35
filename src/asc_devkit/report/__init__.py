"""Rendering of reports (plain JSON data, docs/report_schema.md) for browsers and terminals. A leaf: knows no other room."""

from asc_devkit.report.html import render_html
from asc_devkit.report.schema_page import report_schema
from asc_devkit.report.terminal import print_summary

__all__ = ["print_summary", "render_html", "report_schema"]
