"""The report of a comparison: one page that opens from disk, and its figures as files."""

from __future__ import annotations

from creditlab.analysis.report.page import write_report

__all__ = ["write_report"]
