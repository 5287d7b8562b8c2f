// <tab-group>: a nav.seg of links to #ids inside the element becomes a tab list; without the script all panels show.
customElements.define('tab-group', class extends HTMLElement {
  connectedCallback() {
    if (this.ready) return;
    this.ready = true;
    this.list = this.querySelector('[data-tabs]');
    this.links = [...this.list.querySelectorAll('a[href^="#"]')];
    this.list.setAttribute('role', 'tablist');
    for (const link of this.links) {
      const panel = this.panel(link);
      link.setAttribute('role', 'tab');
      link.setAttribute('aria-controls', panel.id);
      link.id ||= `${panel.id}-tab`;
      panel.setAttribute('role', 'tabpanel');
      panel.setAttribute('aria-labelledby', link.id);
    }
    this.list.addEventListener('click', (event) => {
      const link = event.target.closest('[role=tab]');
      if (!link) return;
      event.preventDefault();
      this.choose(link);
    });
    this.list.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const at = this.links.indexOf(document.activeElement);
      const next = this.links[(at + step + this.links.length) % this.links.length];
      this.choose(next);
      next.focus();
    });
    this.choose(this.links.find((link) => link.hasAttribute('aria-current')) ?? this.links[0]);
  }

  panel(link) { return document.getElementById(link.hash.slice(1)); }

  choose(chosen) {
    for (const link of this.links) {
      const on = link === chosen;
      link.removeAttribute('aria-current');
      link.setAttribute('aria-selected', on);
      link.tabIndex = on ? 0 : -1;
      this.panel(link).hidden = !on;
    }
  }
});
