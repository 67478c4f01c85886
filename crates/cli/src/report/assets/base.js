// Shared by all sections: the data, elements, number formatting.

const data = JSON.parse(document.getElementById('data').textContent);

/** Creates an element. Children are nodes or text; text never becomes markup. */
function el(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Formats bytes in the largest unit in which the number is at least 1. */
function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || count >= 100 ? 0 : count >= 10 ? 1 : 2;
  return `${count.toFixed(digits)} ${units[unit]}`;
}

/** Formats a whole number with its digits grouped in threes. */
function grouped(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

function hex(number) {
  return `0x${number.toString(16)}`;
}

function percent(part, whole) {
  if (!whole) return '0 %';
  const share = (100 * part) / whole;
  return `${share >= 10 || share === 0 ? share.toFixed(0) : share >= 0.1 ? share.toFixed(1) : '<0.1'} %`;
}

function seconds(count) {
  if (count >= 100) return `${count.toFixed(0)} s`;
  return count >= 1 ? `${count.toFixed(2)} s` : `${(count * 1000).toFixed(count < 0.01 ? 2 : 0)} ms`;
}

/** Returns true if a part of the report is known; otherwise the part has the reason. */
function isKnown(part) {
  return Boolean(part) && part.not_known === undefined;
}

function notes(texts) {
  return (texts || []).map((text) => el('p', { class: 'note' }, text));
}

/** Creates a section, and its link at the top. */
function section(id, title, ...children) {
  const card = el('section', { class: 'card', id, 'aria-labelledby': `${id}-title` },
    el('h2', { id: `${id}-title` }, title), ...children);
  document.getElementById('sections').append(el('a', { href: `#${id}` }, title));
  return card;
}

function unknownSection(id, title, part) {
  return section(id, title, el('p', { class: 'note' }, `Not known: ${part ? part.not_known : 'not in the report'}.`));
}

/** Returns the present value of a colour of the style sheet. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Functions that redraw a canvas after a change of colours or width.
const painters = [];
function repaint() {
  for (const paint of painters) paint();
}

