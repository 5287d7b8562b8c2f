// How files hold rows: CSV and JSON lines. A record is { cells, text }: the cells as people see them, and the very text they
// came from, which stays where nobody touches them.
import { jsonLanguage } from '@codemirror/lang-json';
import Papa from 'papaparse';

/** Rows of CSV: a header and records of cells; `head` is the text before the first record. */
export class CsvRows {
  constructor(whole) {
    const mark = whole.startsWith('\uFEFF') ? '\uFEFF' : '';
    const text = whole.slice(mark.length);
    const records = [];
    let start = 0;
    let problem = null;
    this.delimiter = Papa.parse(text.slice(0, 65536), { preview: 10 }).meta.delimiter;
    Papa.parse(text, {
      delimiter: this.delimiter,
      newline: '\n',
      step({ data, errors, meta }) {
        problem ??= errors[0];
        if (meta.cursor > start) records.push({ cells: data, text: text.slice(start, meta.cursor) });
        start = meta.cursor;
      },
    });
    if (problem) throw new Error(`Row ${records.length} cannot be read: ${problem.message}.`);
    const header = records.shift();
    this.head = mark + (header?.text ?? '');
    this.columns = header?.cells ?? [];
    this.records = records;
  }

  /** Whether a record has no cell in a column, or one too many. */
  isOdd({ cells }, column) {
    return column >= this.columns.length || cells[column] === undefined;
  }

  /** A record without values. */
  makeBlank() {
    return this.write(this.columns.map(() => ''));
  }

  /** A record with another value in one column. */
  change({ cells }, column, value) {
    const changed = [...cells];
    while (changed.length < this.columns.length) changed.push('');
    changed[column] = value;
    return this.write(changed);
  }

  write(cells) {
    const text = Papa.unparse([cells], { delimiter: this.delimiter, newline: '\n' });
    // One empty cell alone would be an empty line, which is no row.
    return { cells, text: `${text || '""'}\n` };
  }
}

/** Rows of JSON lines: an object in each. Values that are no texts stand in cells as JSON, null as an empty cell. */
export class JsonRows {
  /** `columns` are known of a file whose text has none: [name, whether its values are texts]. */
  constructor(whole, columns = []) {
    const lines = whole.match(/[^\n]*\n|[^\n]+$/g) ?? [];
    this.head = '';
    this.records = [];
    this.kinds = new Map(columns);
    for (const [number, text] of lines.entries()) {
      if (text.trim()) this.records.push(this.readRecord(text, number + 1));
      // An empty line stays behind the row before it.
      else if (this.records.length) this.records.at(-1).text += text;
      else this.head += text;
    }
    this.columns = [...this.kinds.keys()];
    for (const record of this.records) record.cells = this.columns.map((name) => showValue(record.members.get(name)));
  }

  readRecord(text, number) {
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new Error(`Line ${number} cannot be read: ${error.message}.`);
    }
    if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error(`Line ${number} is no object.`);
    const members = readMembers(text);
    for (const [name, { literal }] of members) {
      const isText = literal === 'null' ? undefined : literal.startsWith('"');
      this.kinds.set(name, this.kinds.get(name) ?? isText);
    }
    return { members, text };
  }

  isOdd() {
    return false;
  }

  makeBlank() {
    const members = this.columns.map((name) => `${JSON.stringify(name)}: null`).join(', ');
    return { cells: this.columns.map(() => ''), text: `{${members}}\n` };
  }

  change({ cells, text }, column, value) {
    const name = this.columns[column];
    const members = readMembers(text);
    const literal = this.writeValue(name, value);
    const member = members.get(name);
    const end = text.lastIndexOf('}');
    const added = `${members.size ? ', ' : ''}${JSON.stringify(name)}: ${literal}`;
    const [from, to, put] = member ? [member.from, member.to, literal] : [end, end, added];
    return { cells: cells.with(column, value), text: text.slice(0, from) + put + text.slice(to) };
  }

  writeValue(name, value) {
    if (value === '') return 'null';
    if (!this.kinds.get(name) && isJson(value)) return value.trim();
    return JSON.stringify(value);
  }
}

/** The members of an object's text: name → where its value stands, and its JSON with all its digits. */
function readMembers(text) {
  const members = new Map();
  const object = jsonLanguage.parser.parse(text).topNode.getChild('Object');
  for (const property of object?.getChildren('Property') ?? []) {
    const { from, to } = property.lastChild;
    const { from: start, to: end } = property.getChild('PropertyName');
    members.set(JSON.parse(text.slice(start, end)), { from, to, literal: text.slice(from, to) });
  }
  return members;
}

function showValue(member) {
  if (!member || member.literal === 'null') return '';
  return member.literal.startsWith('"') ? JSON.parse(member.literal) : member.literal;
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
