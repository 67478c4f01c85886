// Builds the page.

const main = document.getElementById('main');
const log = makeLog();
const parts = [makeHead(), makeFindings(), makeMap(), ...makeUsers(), makeTimeLine(), makeDomains()];
main.replaceChildren(...parts, log.card || log);
// The log is the last section, also in the list of sections.
const links = document.getElementById('sections');
const logLink = links.querySelector('a[href="#log"]');
if (logLink) links.append(logLink);
document.getElementById('footer').textContent = `${data.name ? `${data.name}; ` : ''}made by ${data.made_by}. This page is self-contained and loads nothing.`;
if (log.begin) log.begin();
repaint();
