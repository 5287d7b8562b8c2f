// What somebody rests on they are about to click: it is asked for meanwhile, and the click finds the answer in the browser's
// cache. The server lets it stand for two seconds, for this page as it was loaded, and only until something is sent.
const REST_MS = 40;
const FRESH_MS = 1_000;
const askedAt = new WeakMap();
let state = crypto.randomUUID();
let resting;

const linkAt = ({ target }) => target.closest?.('[hx-boost="true"] a[href]:not([hx-boost="false"])');
const nearest = (link, name) => link.closest(`[${name}]`)?.getAttribute(name);

function preload(link) {
  if (performance.now() - askedAt.get(link) < FRESH_MS) return;
  askedAt.set(link, performance.now());
  const headers = { 'HX-Request': true, 'HX-Target': nearest(link, 'hx-target').slice(1), 'X-Preload': state };
  fetch(link.href, { headers: { ...headers, ...JSON.parse(nearest(link, 'hx-headers') ?? '{}') } })
    .then((answer) => answer.text()).catch(() => {}); // the click asks once more, and says what is wrong
}

for (const name of ['pointerover', 'focusin']) {
  document.addEventListener(name, (event) => {
    clearTimeout(resting);
    const link = linkAt(event);
    if (link) resting = setTimeout(preload, REST_MS, link);
  });
}
document.addEventListener('pointerdown', (event) => {
  const link = linkAt(event);
  if (link) preload(link);
});
document.addEventListener('htmx:configRequest', ({ detail: { elt, headers, verb } }) => {
  if (verb !== 'get') state = crypto.randomUUID();
  else if (linkAt({ target: elt })) headers['X-Preload'] = state;
});
