// What the server's linter says of a text that is not committed yet.

/** The place of a line and column, both from 1, in a text that may be shorter than the linter thinks. */
function placeOf(doc, line, column) {
  if (line > doc.lines) return doc.length;
  const { from, to } = doc.line(line);
  return Math.min(from + column - 1, to);
}

/** Problems of a text, for the editor; none where nobody can say. */
export async function askLinter(url, path, doc) {
  const headers = {
    Accept: 'application/json',
    'Content-Type': 'application/json',
    'X-CSRFToken': document.querySelector('meta[name=csrf-token]')?.content ?? '',
  };
  const body = JSON.stringify({ path, text: doc.toString() });
  // Nobody answers who leaves the page meanwhile.
  const answer = await fetch(url, { method: 'POST', headers, body }).catch(() => null);
  if (!answer?.ok) return [];
  const { problems } = await answer.json();
  return problems.map((problem) => {
    const from = placeOf(doc, problem.line, problem.column);
    return {
      from,
      to: Math.max(from, placeOf(doc, problem.end_line, problem.end_column)),
      severity: problem.code === 'invalid-syntax' ? 'error' : 'warning',
      source: `ruff ${problem.code}`,
      message: problem.message,
    };
  });
}
