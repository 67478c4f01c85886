// Builds the page.

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

const main = document.getElementById('main');
const log = makeLog();
const parts = [makeHead(), makeMap(), ...makeUsers(), makeTimeLine(), makeDomains()];
main.replaceChildren(...parts, log.card || log);
// The log is the last section, also in the list of sections.
const links = document.getElementById('sections');
const logLink = links.querySelector('a[href="#log"]');
if (logLink) links.append(logLink);
document.getElementById('footer').textContent = `${data.name ? `${data.name}; ` : ''}made by ${data.made_by}. This page is self-contained and loads nothing.`;
if (log.begin) log.begin();
repaint();

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
