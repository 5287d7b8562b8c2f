// Builds static/build/: three self-contained scripts, one style sheet and one icon sprite.
// Self-contained files need no rewriting of imports when their names are hashed by Django.
import * as esbuild from 'esbuild';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(here);
const finished = path.join(here, 'build');
// Built aside and then put in place, so that a running server never misses a file.
const out = path.join(here, `build.${process.pid}`);
const primer = path.join(root, 'node_modules/@primer/primitives/dist/css');
const common = { bundle: true, minify: true, target: ['es2022'], legalComments: 'linked', logLevel: 'warning' };
const read = (file) => fs.readFileSync(file, 'utf8');

/** Every file below a folder whose name ends as asked. */
function filesBelow(folder, ending) {
  return fs.readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
}

/** Custom properties that our sources name, followed through var() into the tokens themselves. */
function usedTokens(sources, tokenFiles) {
  const definitions = new Map();
  for (const css of tokenFiles) {
    for (const [, name, value] of css.matchAll(/(--[\w-]+)\s*:\s*([^;]+);/g)) {
      definitions.set(name, [...(definitions.get(name) ?? []), value]);
    }
  }
  const used = new Set();
  const queue = [...sources.matchAll(/--[\w-]+/g)].map(([name]) => name);
  while (queue.length) {
    const name = queue.pop();
    if (used.has(name) || !definitions.has(name)) continue;
    used.add(name);
    for (const value of definitions.get(name)) for (const [inner] of value.matchAll(/--[\w-]+/g)) queue.push(inner);
  }
  return used;
}

/** The token files without what nobody uses: 850 kB become 50. */
function prunedTokens() {
  const scales = [
    'base/motion/motion', 'base/size/size', 'base/size/z-index', 'base/typography/typography',
    'functional/motion/motion', 'functional/size/border', 'functional/size/radius', 'functional/size/size',
    'functional/size/z-index', 'functional/spacing/space', 'functional/typography/typography',
  ];
  const themes = [
    'light', 'light-high-contrast', 'light-colorblind', 'dark', 'dark-dimmed', 'dark-high-contrast', 'dark-colorblind',
  ].map((name) => `functional/themes/${name}`);
  const tokenFiles = [...scales, ...themes].map((name) => read(path.join(primer, `${name}.css`)));
  const sources = [...filesBelow(path.join(here, 'css'), '.css'), ...filesBelow(path.join(here, 'js'), '.js')];
  const used = usedTokens(sources.map(read).join(''), tokenFiles);
  return tokenFiles
    .map((css) => css
      .replace(/^\s*\/\*\*[\s\S]*?\*\/\s*$/gm, '')
      .replace(/^\s*(--[\w-]+)\s*:\s*[^;]+;.*$/gm, (line, name) => (used.has(name) ? line : '')))
    .join('\n');
}

/** One symbol for each octicon whose name stands in quotes in a template, a script or a Python file. */
function iconSprite() {
  const octicons = createRequire(import.meta.url)('@primer/octicons/build/data.json');
  const sources = [
    ...filesBelow(path.join(root, 'templates'), '.html'),
    ...filesBelow(path.join(root, 'webapp'), '.py'),
    ...filesBelow(path.join(here, 'js'), '.js'),
  ];
  const names = new Set(sources.flatMap((file) => [...read(file).matchAll(/["']([a-z][a-z0-9-]*)["']/g)].map((m) => m[1])));
  const symbols = Object.keys(octicons)
    .filter((name) => names.has(name) && octicons[name].heights[16])
    .map((name) => `<symbol id="${name}" viewBox="0 0 16 16">${octicons[name].heights[16].path}</symbol>`);
  return `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join('\n')}</svg>\n`;
}

fs.mkdirSync(out, { recursive: true });
process.on('exit', () => fs.rmSync(out, { recursive: true, force: true }));
fs.writeFileSync(path.join(out, 'tokens.css'), prunedTokens());
fs.writeFileSync(path.join(out, 'icons.svg'), iconSprite());
const entry = (name) => path.join(here, 'js', `${name}.js`);
await esbuild.build({
  ...common, format: 'iife', outdir: out,
  entryPoints: { app: entry('app'), editor: entry('editor'), lineage: entry('lineage') },
});
await esbuild.build({
  ...common, outdir: out, entryPoints: { app: path.join(here, 'css/app.css') },
  plugins: [{
    name: 'tokens',
    setup(build) { build.onResolve({ filter: /tokens\.css$/ }, () => ({ path: path.join(out, 'tokens.css') })); },
  }],
});
fs.rmSync(path.join(out, 'tokens.css'));
fs.mkdirSync(finished, { recursive: true });
for (const name of fs.readdirSync(out)) fs.renameSync(path.join(out, name), path.join(finished, name));
