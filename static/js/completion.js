// What the editor offers inside the quotes of a transform: paths of datasets, and the columns of those that it reads.
import { syntaxTree } from '@codemirror/language';

const INPUT = /TableInput\(\s*["'](\/[\w/-]+)["']/g;
const known = new Map();

async function ask(path) {
  const answer = await fetch(`/api/v1${path}`, { headers: { Accept: 'application/json' } });
  return answer.ok ? (await answer.json()) : { results: [], columns: [] };
}

/** Columns of a dataset on a branch, or on master where it is not on that branch; none of one that the reader cannot see. */
async function findColumns(path, branch) {
  const { results: [dataset] } = await ask(`/datasets?path=${encodeURIComponent(path)}`);
  if (!dataset) return [];
  const { results: branches } = await ask(`/datasets/${dataset.id}/branches?limit=100`);
  const name = [branch, 'master'].find((wanted) => branches.some((one) => one.name === wanted));
  if (!name) return [];
  const { columns } = await ask(`/datasets/${dataset.id}/schema?branch=${encodeURIComponent(name)}`);
  return columns.map(({ name: label, type }) => ({ label, detail: type, info: path, type: 'property' }));
}

function recall(path, branch) {
  if (!known.has(path)) known.set(path, findColumns(path, branch));
  return known.get(path);
}

async function listPaths(typed) {
  const { results } = await ask(`/datasets?q=${encodeURIComponent(typed)}&limit=30`);
  return results.map(({ path, description }) => ({ label: path, info: description || undefined, type: 'constant' }));
}

/** A source of completions for code on a branch. */
export function completeDatasets(branch) {
  return async (context) => {
    const node = syntaxTree(context.state).resolveInner(context.pos, -1);
    if (node.name !== 'String' || context.pos === node.from) return null;
    const from = node.from + /^\w*["']/.exec(context.state.sliceDoc(node.from, context.pos))?.[0].length;
    const typed = context.state.sliceDoc(from, context.pos);
    if (Number.isNaN(from) || /[^\w/.-]/.test(typed)) return null;
    if (typed.startsWith('/')) return { from, options: await listPaths(typed), filter: false };
    if (!typed && !context.explicit) return null;
    const read = new Set([...context.state.doc.toString().matchAll(INPUT)].map(([, path]) => path));
    const columns = await Promise.all([...read].slice(0, 20).map((path) => recall(path, branch)));
    return { from, options: columns.flat(), validFor: /^\w*$/ };
  };
}
