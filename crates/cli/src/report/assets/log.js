// The kernel log: only visible lines are elements, and a search runs in slices.

const LINE_HEIGHT = 20;
const BEYOND = 20;
const SLICE = 20000;
const PRINTED = 500;
const LEVELS = ['emerg', 'alert', 'crit', 'err', 'warn', 'notice', 'info', 'debug'];
const SIGNS = ['!', '!', '!', 'E', 'W', ' ', ' ', ' ', ' '];
const LEVEL_CLASSES = ['level-bad', 'level-bad', 'level-bad', 'level-bad', 'level-warn', '', '', 'level-debug', ''];

function stamp(nanoseconds) {
  if (nanoseconds === null) return '';
  const whole = Math.floor(nanoseconds / 1e9);
  const rest = Math.floor((nanoseconds % 1e9) / 1e3);
  return `[${String(whole).padStart(5)}.${String(rest).padStart(6, '0')}] `;
}

/** Returns the text with matches of the search marked. */
function marked(text, wanted) {
  if (!wanted) return [text];
  const low = text.toLowerCase();
  // Some letters change length in lower case; offsets would not match.
  if (low.length !== text.length) return [text];
  const pieces = [];
  let at = 0;
  for (let found = low.indexOf(wanted); found >= 0 && pieces.length < 200; found = low.indexOf(wanted, at)) {
    pieces.push(text.slice(at, found), el('mark', {}, text.slice(found, found + wanted.length)));
    at = found + wanted.length;
  }
  return [...pieces, text.slice(at)];
}

function makeLog() {
  const { log } = data;
  if (!isKnown(log)) return unknownSection('log', 'Log', log);
  const { lines } = log;
  let seen = null;
  let wanted = '';
  let worst = 8;
  let target = -1;
  let run = 0;
  const count = () => (seen ? seen.length : lines.length);
  const numberOf = (row) => (seen ? seen[row] : row);

  const room = el('div', { class: 'room' });
  const visible = el('div', { class: 'window mono' });
  room.append(visible);
  const box = el('div', { class: 'lines', tabindex: '0', role: 'region', id: 'log-lines', 'aria-label': 'Kernel log' }, room);
  const status = el('output', { class: 'range', id: 'log-count', 'aria-live': 'polite' });
  const input = el('input', { type: 'search', id: 'log-search', placeholder: 'Search the log', 'aria-label': 'Search the log', autocomplete: 'off', spellcheck: 'false' });
  const level = el('select', { id: 'log-level', 'aria-label': 'Levels' },
    el('option', { value: '8' }, 'All levels'), el('option', { value: '5' }, 'Notices and worse'),
    el('option', { value: '4' }, 'Warnings and worse'), el('option', { value: '3' }, 'Errors and worse'));
  const printed = el('div', { class: 'printed mono', 'aria-hidden': 'true' });

  const lineOf = (number) => {
    const [time, severity, text] = lines[number];
    return el('span', {
      class: `line ${LEVEL_CLASSES[severity] || ''}${number === target ? ' target' : ''}`,
      title: `${LEVELS[severity] || 'no level'}, line ${number + 1}`, 'data-line': number,
    },
    el('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[severity] || ' '),
    el('span', { class: 'time' }, stamp(time)), ...marked(text, wanted));
  };
  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / LINE_HEIGHT) - BEYOND);
    const end = Math.min(count(), Math.ceil((box.scrollTop + box.clientHeight) / LINE_HEIGHT) + BEYOND);
    visible.style.transform = `translateY(${first * LINE_HEIGHT}px)`;
    const rows = [];
    for (let row = first; row < end; row += 1) rows.push(lineOf(numberOf(row)));
    visible.replaceChildren(...rows);
  };
  const layOut = () => {
    room.style.height = `${count() * LINE_HEIGHT}px`;
    status.textContent = seen ? `${grouped(count())} of ${grouped(lines.length)} lines` : `${grouped(lines.length)} lines`;
    draw();
  };
  const search = () => {
    wanted = input.value.toLowerCase();
    worst = Number(level.value);
    run += 1;
    const mine = run;
    if (!wanted && worst === 8) {
      seen = null;
      layOut();
      return;
    }
    const found = [];
    const slice = (from) => {
      if (mine !== run) return;
      const end = Math.min(lines.length, from + SLICE);
      for (let number = from; number < end; number += 1) {
        const [, severity, text] = lines[number];
        if (severity <= worst && (!wanted || text.toLowerCase().includes(wanted))) found.push(number);
      }
      if (from === 0 || end === lines.length) {
        seen = found;
        box.scrollTop = 0;
        layOut();
      }
      if (end < lines.length) setTimeout(slice, 0, end);
    };
    slice(0);
  };
  let typed = 0;
  input.addEventListener('input', () => {
    clearTimeout(typed);
    typed = setTimeout(search, 100);
  });
  level.addEventListener('change', search);
  let asked = false;
  box.addEventListener('scroll', () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }, { passive: true });
  // Shows a found line among its neighbours.
  visible.addEventListener('dblclick', (event) => {
    const line = event.target.closest('[data-line]');
    if (!line || !seen) return;
    target = Number(line.dataset.line);
    input.value = '';
    level.value = '8';
    search();
    box.scrollTop = Math.max(0, target * LINE_HEIGHT - box.clientHeight / 2);
  });
  const jump = (down) => {
    box.scrollTop = down ? box.scrollHeight : 0;
  };
  window.addEventListener('beforeprint', () => {
    const from = Math.max(0, count() - PRINTED);
    const rows = [];
    for (let row = from; row < count(); row += 1) rows.push(stamp(lines[numberOf(row)][0]) + lines[numberOf(row)][2]);
    printed.textContent = rows.join('\n');
  });
  window.addEventListener('keydown', (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || '');
    if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
  painters.push(draw);
  const card = section('log', 'Log',
    el('p', { class: 'lead' }, 'Type to search, or press / from anywhere. Double-click a found line to see it among its neighbours.'),
    el('div', { class: 'tools log-tools', role: 'search' }, input, level,
      el('button', { type: 'button', onclick: () => jump(false) }, 'First'), el('button', { type: 'button', onclick: () => jump(true) }, 'Last'), status),
    box, printed,
    ...notes([...(log.left_out ? [`The log is too long for a page: its first ${grouped(log.left_out)} lines are omitted.`] : []), ...log.warnings]));
  card.classList.add('long');
  return { card, begin: () => {
    layOut();
    jump(true);
  } };
}

