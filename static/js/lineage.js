// <job-graph label="Job graph"> around a plain list of links:
//   <li data-node="id" data-inputs="id id" data-kind="ok|run|bad|fresh|wait|abort|src" data-icon="check-circle-fill"
//       data-title="clean/weather" data-sub="1 · Completed" data-change="added|modified|removed|affected"><a href="…">…</a></li>
// The list stays in the page for screen readers; the drawing repeats it. Colours are classes, so themes need no redraw.
import dagre from '@dagrejs/dagre';

const NS = 'http://www.w3.org/2000/svg';
const GLYPHS = { added: '+', modified: '~', removed: '−', affected: '!' };
const CAP = 150;

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function text(content, attributes) {
  const element = svg('text', attributes);
  element.textContent = content;
  return element;
}

let fontContext;
function widthOf(words, font) {
  fontContext ??= document.createElement('canvas').getContext('2d');
  fontContext.font = font;
  return fontContext.measureText(words).width;
}

function edgePath(points, from, to) {
  const ends = points.slice();
  ends[0] = { x: from.x + from.width / 2, y: from.y };
  ends[ends.length - 1] = { x: to.x - to.width / 2 - 1, y: to.y };
  if (ends.length === 3) ends.splice(1, 1);
  let path = `M${ends[0].x} ${ends[0].y}`;
  for (let i = 1; i < ends.length; i += 1) {
    const middle = (ends[i - 1].x + ends[i].x) / 2;
    path += `C${middle} ${ends[i - 1].y} ${middle} ${ends[i].y} ${ends[i].x} ${ends[i].y}`;
  }
  return path;
}

class JobGraph extends HTMLElement {
  connectedCallback() {
    this.draw();
    // A live page swaps the list or its attributes; draw again, once a frame.
    this.observer = new MutationObserver(() => { this.frame ??= requestAnimationFrame(() => this.draw()); });
    const list = this.querySelector('ol');
    if (list) this.observer.observe(list, { childList: true, subtree: true, attributes: true });
  }

  disconnectedCallback() { this.observer?.disconnect(); }

  draw() {
    this.frame = undefined;
    const items = [...this.querySelectorAll('li[data-node]')].slice(0, CAP);
    if (!items.length) return;
    const graph = this.layout(items);
    const { width, height } = graph.graph();
    const sprite = this.dataset.icons ?? document.documentElement.dataset.icons;
    const drawing = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'jg', 'aria-hidden': 'true' });
    drawing.append(svg('defs', {}, svg('marker', {
      id: 'jg-arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto',
    }, svg('path', { d: 'M0 0L8 4L0 8z', class: 'lin-arrow' }))));
    for (const edge of graph.edges()) {
      const to = graph.node(edge.w);
      drawing.append(svg('path', {
        class: `lin-edge e-${to.item.dataset.kind}`, 'marker-end': 'url(#jg-arrow)', 'data-from': edge.v, 'data-to': edge.w,
        d: edgePath(graph.edge(edge).points, graph.node(edge.v), to),
      }));
    }
    for (const id of graph.nodes()) drawing.append(this.node(id, graph.node(id), sprite));
    this.highlightOn(drawing, graph);
    const frame = document.createElement('div');
    frame.className = 'lin-scroll graph';
    if (!this.closest('[role=region]')) {
      frame.tabIndex = 0;
      frame.setAttribute('role', 'region');
      frame.setAttribute('aria-label', `${this.getAttribute('label') ?? 'Graph'}, scrollable`);
    }
    frame.append(drawing);
    const old = this.querySelector('.lin-scroll');
    if (old) old.replaceWith(frame); else this.prepend(frame);
    this.classList.add('ready');
  }

  layout(items) {
    const graph = new dagre.graphlib.Graph()
      .setGraph({ rankdir: 'LR', nodesep: 18, ranksep: 64, marginx: 8, marginy: 8 })
      .setDefaultEdgeLabel(() => ({}));
    for (const item of items) {
      const { title = item.textContent.trim(), sub = '' } = item.dataset;
      const words = Math.max(widthOf(title, '600 13px "Liberation Sans", Arial'), widthOf(sub, '12px "Liberation Sans", Arial'));
      graph.setNode(item.dataset.node, { width: Math.min(400, Math.max(150, words + 62)), height: sub ? 48 : 36, item, title, sub });
    }
    for (const item of items) {
      for (const input of (item.dataset.inputs ?? '').split(' ').filter(Boolean)) {
        if (graph.hasNode(input)) graph.setEdge(input, item.dataset.node);
      }
    }
    dagre.layout(graph);
    return graph;
  }

  node(id, { x, y, width, height, item, title, sub }, sprite) {
    const { kind = 'src', icon = 'table', change } = item.dataset;
    const link = svg('a', {
      href: item.querySelector('a')?.getAttribute('href') ?? undefined, tabindex: '-1', 'data-id': id,
      class: `jn jn-${kind}${change ? ` ch-${change}` : ''}`, transform: `translate(${x - width / 2} ${y - height / 2})`,
    }, svg('rect', { width, height, rx: 6 }), svg('use', { href: `${sprite}#${icon}`, x: 12, y: height / 2 - 8, width: 16, height: 16 }));
    link.append(text(title, { class: 'jn__n', x: 38, y: sub ? 20 : 23 }));
    if (sub) link.append(text(sub, { class: 'jn__s', x: 38, y: 37 }));
    if (GLYPHS[change]) link.append(text(GLYPHS[change], { class: 'lin-glyph', x: width - 13, y: 20 }));
    return link;
  }

  /** Pointing at a node lights what it is made from and what is made from it. */
  highlightOn(drawing, graph) {
    const reach = (start, step) => {
      const seen = new Set([start]);
      const queue = [start];
      while (queue.length) {
        for (const next of step(queue.pop()) ?? []) if (!seen.has(next)) { seen.add(next); queue.push(next); }
      }
      return seen;
    };
    const show = (id) => {
      const up = id ? reach(id, (n) => graph.predecessors(n)) : new Set();
      const down = id ? reach(id, (n) => graph.successors(n)) : new Set();
      drawing.classList.toggle('dim', Boolean(id));
      for (const node of drawing.querySelectorAll('.jn')) node.classList.toggle('hot', up.has(node.dataset.id) || down.has(node.dataset.id));
      for (const edge of drawing.querySelectorAll('.lin-edge')) {
        const { from, to } = edge.dataset;
        edge.classList.toggle('hot', (up.has(from) && up.has(to)) || (down.has(from) && down.has(to)));
      }
    };
    drawing.addEventListener('mouseover', (event) => show(event.target.closest('.jn')?.dataset.id));
    drawing.addEventListener('mouseleave', () => show());
    for (const item of this.querySelectorAll('li[data-node]')) {
      item.addEventListener('focusin', () => show(item.dataset.node));
      item.addEventListener('focusout', () => show());
    }
  }
}

customElements.define('job-graph', JobGraph);
