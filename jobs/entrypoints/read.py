"""Reads files for the web, which itself decodes nothing that others have written: pages of rows of a table above all.

It sees no file and reaches no network. The web asks over a channel (jobs/channel.py), opens each file that is asked for
in return, and ends this process when it has what it wanted. One process reads one table for one request.

Questions: ``{"ask": "rows", ...}`` with the fields of RowsRequest; ``{"ask": "sample", ...}`` with the fields of SampleRequest for the beginning of a file that somebody sent;
``{"ask": "tables", "sql"}`` for the tables that a query names; ``{"ask": "lint", "path", "text"}`` for what a linter says
of code; ``{"ask": "lines", "content"}`` for the rows of a Parquet file as JSON lines and ``{"ask": "parquet", "lines",
"old"}`` for the file that they make, which is the old one where its rows are these; both files in base64. Answers: ``{"rows", "total", "scanned"}``; ``{"columns", "rows", "delimiter"}``; ``{"tables"}``; ``{"problems"}``;
``{"lines", "columns"}``; ``{"content"}``; ``{"problem"}`` in place of these, where the sender has something to mend; or
``{"failure", "message"}`` with a ReadFailure. In between: ``{"open": location}``, answered by ``{"size"}`` and an open
file where there is one, and ``{"read": location, "start", "size"}``, answered by the bytes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from jobs.engine.errors import RefusedQueryError
from jobs.engine.query.statement import list_tables
from jobs.engine.read.files import sample_file
from jobs.engine.read.first_rows import read_rows
from jobs.engine.read.opened import CsvFormat, FileError
from jobs.engine.read.parquet_lines import list_columns, make_lines, make_parquet
from jobs.entrypoints.answering import Answer, Answering, answer_all
from jobs.entrypoints.linting import lint
from jobs.protocol import RowsRequest, SampleRequest

MOST_QUESTION_BYTES = 256 * 1024 * 1024


def main(_path: str) -> int:
    """Answer until nobody asks any more."""
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve at once what is to be left for rows
    return answer_all(RowsReader, most_question_bytes=MOST_QUESTION_BYTES)


class RowsReader(Answering):
    """The answers to one caller."""

    out_of_memory = (MemoryError, duckdb.OutOfMemoryException)

    def work_out(self, ask: str, details: dict[str, Any]) -> Answer:
        """Look into what is asked for."""
        return Answer(self._look(ask, details))

    def _look(self, ask: str, details: dict[str, Any]) -> dict[str, Any]:
        if ask == "rows":
            rows, total, scanned = read_rows(RowsRequest(**details), self.files)
            return {"rows": rows, "total": total, "scanned": scanned}
        if ask == "sample":
            return self._sample(SampleRequest(**details))
        if ask == "tables":
            return _list_tables(details["sql"])
        if ask == "lint":
            return {"problems": lint(details["path"], details["text"])}
        return _rewrite(ask, details)

    def _sample(self, request: SampleRequest) -> dict[str, Any]:
        """Answer with a sample; what is wrong with the file is an answer, too: it is the sender's to mend."""
        descriptor = self.files.ask(open=request.location).descriptor
        path = Path(f"/proc/self/fd/{descriptor}")
        try:
            form = CsvFormat(request.delimiter, request.has_header)
            sample = sample_file(path, request.format, form, shown=request.shown)
        except FileError as error:
            return {"problem": str(error)}
        return asdict(sample)


def _list_tables(sql: str) -> dict[str, Any]:
    """Answer with the tables that a query names; what is wrong with it is an answer, too: it is the writer's to mend."""
    try:
        return {"tables": list_tables(sql)}
    except RefusedQueryError as error:
        return {"problem": str(error)}


def _rewrite(ask: str, details: dict[str, Any]) -> dict[str, Any]:
    """Answer with a Parquet file as text, or with a text as one; what is wrong with either is an answer, too."""
    try:
        if ask == "lines":
            content = b64decode(details["content"])
            return {"lines": make_lines(content), "columns": list_columns(content)}
        lines, old = details["lines"], b64decode(details["old"])
        content = old if lines == make_lines(old) else make_parquet(lines, old)
        return {"content": b64encode(content).decode()}
    except FileError as error:
        return {"problem": str(error)}
