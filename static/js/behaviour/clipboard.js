// <copy-button for="id-of-element" hidden> or <copy-button value="text">: a real button inside, shown by the script.
customElements.define('copy-button', class extends HTMLElement {
  connectedCallback() {
    if (this.ready) return;
    this.ready = true;
    this.hidden = false;
    this.querySelector('button')?.addEventListener('click', () => this.copy());
  }

  async copy() {
    const source = document.getElementById(this.getAttribute('for') ?? '');
    const text = this.getAttribute('value') ?? source?.value ?? source?.textContent ?? '';
    await navigator.clipboard?.writeText(text.trim());
    const status = this.querySelector('[data-status]');
    const before = status?.textContent;
    if (!status || before === 'Copied') return;
    status.textContent = 'Copied';
    this.classList.add('is-done');
    setTimeout(() => { status.textContent = before; this.classList.remove('is-done'); }, 2000);
  }
});
