// Light and dark colours, and what is drawn again when they or the width change.

function setScheme(scheme) {
  document.documentElement.dataset.scheme = scheme;
  const button = document.getElementById('scheme');
  button.textContent = scheme === 'dark' ? '☀ Light' : '☾ Dark';
  button.setAttribute('aria-pressed', String(scheme === 'dark'));
  repaint();
}

const preferred = window.matchMedia('(prefers-color-scheme: dark)');
let chosen = null;
const scheme = () => chosen || (preferred.matches ? 'dark' : 'light');
setScheme(scheme());

document.getElementById('scheme').addEventListener('click', () => {
  chosen = scheme() === 'dark' ? 'light' : 'dark';
  setScheme(chosen);
});
preferred.addEventListener('change', () => setScheme(scheme()));
window.addEventListener('beforeprint', () => setScheme('light'));
window.addEventListener('afterprint', () => setScheme(scheme()));
let width = window.innerWidth;
window.addEventListener('resize', () => {
  // Phones report a new height with every scroll.
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  repaint();
});
