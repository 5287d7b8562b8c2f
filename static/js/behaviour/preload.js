// What somebody rests on they are about to click: it is asked for meanwhile, and the click finds the answer in the browser's
// cache. The server lets it stand for two seconds, for this page as it was loaded, and only until something is sent.
const REST_MS = 40;
let state = Date.now();
let resting;

const linkAt = ({ target }) => target.closest('[hx-boost=true] a:not([hx-boost=false])');
const nearest = (link, name) => link.closest(`[${name}]`)?.getAttribute(name);

function preload(link) {
  const target = link && nearest(link, 'hx-target');
  if (!target) return;
  const more = JSON.parse(nearest(link, 'hx-headers') ?? '{}');
  fetch(link.href, { headers: { ...more, 'HX-Request': true, 'HX-Target': target.slice(1), 'X-Preload': state } })
    .then((answer) => answer.text()).catch(() => {}); // the click asks once more, and says what is wrong
}

for (const name of ['pointerover', 'focusin']) {
  document.addEventListener(name, (event) => {
    clearTimeout(resting);
    resting = setTimeout(preload, REST_MS, linkAt(event));
  });
}
// After a longer rest the answer has become old.
document.addEventListener('pointerdown', (event) => preload(linkAt(event)));
document.addEventListener('htmx:configRequest', ({ detail: { elt, headers, verb } }) => {
  if (verb !== 'get') state += 1;
  else if (linkAt({ target: elt })) headers['X-Preload'] = state;
});
