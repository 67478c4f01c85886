// Tables of the largest users: sortable, with bars.

const ROWS = 10;

/**
 * Creates a table. A column has a name, a function for the value by which rows are sorted, and optionally one for the
 * text shown instead; the values of the column with `bar` are also drawn as bars.
 */
function table(label, columns, rows, sortable = true) {
  let sorted = columns.findIndex((column) => column.bar);
  let upwards = false;
  let open = false;
  const body = el('tbody');
  const largest = columns.map((column) => (column.bar ? Math.max(1, ...rows.map((row) => column.value(row) || 0)) : 0));
  const cell = (column, index, row) => {
    const value = column.value(row);
    const text = column.text ? column.text(row) : value === null || value === undefined ? '' : String(value);
    if (!column.bar) {
      return el('td', { class: `${column.number ? 'number' : column.name_like ? 'name' : ''} ${column.mark ? column.mark(row) : ''}`.trim() || null }, text);
    }
    const bar = el('i', { 'aria-hidden': 'true' });
    bar.style.width = `${(100 * (value || 0)) / largest[index]}%`;
    return el('td', { class: 'bar' }, el('div', { class: 'measure' }, bar, el('b', {}, text)));
  };
  const fill = () => {
    const order = [...rows];
    if (sortable && sorted >= 0) {
      const { value } = columns[sorted];
      const compare = (a, b) => (typeof a === 'number' ? a - b : String(a).localeCompare(String(b)));
      const empty = (one) => one === null || one === undefined;
      order.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (empty(x) || empty(y)) return Number(empty(x)) - Number(empty(y));
        return upwards ? compare(x, y) : compare(y, x);
      });
    }
    const seen = open ? order : order.slice(0, ROWS);
    body.replaceChildren(...seen.map((row) => el('tr', {}, columns.map((column, index) => cell(column, index, row)))));
    heads.forEach((head, index) => {
      if (sortable) head.setAttribute('aria-sort', index !== sorted ? 'none' : upwards ? 'ascending' : 'descending');
      if (sortable) head.querySelector('span').textContent = index !== sorted ? '' : upwards ? ' ▲' : ' ▼';
    });
  };
  const heads = columns.map((column, index) => el('th', { scope: 'col', class: column.number || column.bar ? 'number' : null },
    sortable ? el('button', { type: 'button', onclick: () => {
      upwards = sorted === index ? !upwards : !(column.number || column.bar);
      sorted = index;
      fill();
    } }, column.name, el('span', { 'aria-hidden': 'true' })) : el('button', { type: 'button', disabled: true }, column.name)));
  fill();
  const more = rows.length > ROWS ? el('button', { type: 'button', class: 'more', 'aria-expanded': 'false', onclick: () => {
    open = !open;
    more.textContent = open ? 'Show fewer' : `Show all ${rows.length}`;
    more.setAttribute('aria-expanded', String(open));
    fill();
  } }, `Show all ${rows.length}`) : null;
  return [el('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': label },
    el('table', {}, el('caption', { class: 'hidden' }, label), el('thead', {}, el('tr', {}, heads)), body)), more].filter(Boolean);
}

function userCard(title, lead, part, show) {
  const id = title.toLowerCase().replaceAll(' ', '-');
  return el('section', { class: 'card', id, 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title),
    ...(isKnown(part) ? [el('p', { class: 'lead' }, lead(part)), ...show(part)] : [el('p', { class: 'note' }, `Not known: ${part ? part.not_known : 'no struct pages'}.`)]));
}

function makeUsers() {
  const { users } = data;
  if (!isKnown(users)) return [unknownSection('users', 'Users', users)];
  const size = isKnown(data.map) ? data.map.page_size : data.overview.memory.page_size;
  const counters = userCard('Users of memory', (part) => `From the kernel's counters: ${part.total ? bytes(part.total * part.page_size) : '?'} in total. Indented rows are included in others.`,
    users.counters, (part) => [...table('Users of memory', [
      { name: 'Use', value: (row) => row.name, name_like: true, mark: (row) => (row.counted_elsewhere ? 'indent' : '') },
      { name: 'Bytes', value: (row) => row.bytes, text: (row) => bytes(row.bytes), bar: true },
    ], part.users, false), ...notes(part.warnings)]);
  const processes = userCard('Processes', (part) => `${part.rows.length} with user memory, of ${part.tasks} tasks. Shared memory is counted for each process that uses it.`,
    users.processes, (part) => [...table('Processes by memory', [
      { name: 'Name', value: (row) => row.name, name_like: true },
      { name: 'In memory', value: (row) => row.pages * size, text: (row) => bytes(row.pages * size), bar: true },
      { name: 'PID', value: (row) => row.pid, number: true },
      { name: 'State', value: (row) => row.state },
    ], part.rows), ...notes(part.gaps)]);
  const slabs = userCard('Slab caches', (part) => `The kernel's small objects: ${part.caches} caches, ${bytes(part.bytes)}.`,
    users.slabs, (part) => [...table('Slab caches', [
      { name: 'Cache', value: (row) => row.name, name_like: true },
      { name: 'Bytes', value: (row) => row.bytes, text: (row) => (row.bytes === null ? '?' : bytes(row.bytes)), bar: true },
      { name: 'Object', value: (row) => row.object_size, text: (row) => bytes(row.object_size), number: true },
      { name: 'In use', value: (row) => row.in_use, text: (row) => (row.in_use === null ? '' : grouped(row.in_use)), number: true },
    ], part.rows), ...notes(part.warnings)]);
  const files = userCard('Files in memory', (part) => `Page cache of ${grouped(part.files)} files; paths are relative to the root of the file system.`,
    users.files, (part) => [...table('Files in memory', [
      { name: 'File', value: (row) => row.path || `(${row.not_known || 'no name'})`, name_like: true },
      { name: 'In memory', value: (row) => row.pages * size, text: (row) => bytes(row.pages * size), bar: true },
      { name: 'On', value: (row) => row.device || '', text: (row) => [row.filesystem, row.device].filter((one, index, all) => one && all.indexOf(one) === index).join(' ') },
    ], part.rows), ...notes(part.dropped ? [`${grouped(part.dropped)} pages of files with few pages are not listed.`] : [])]);
  document.getElementById('sections').append(el('a', { href: '#users' }, 'Users'));
  return [el('div', { class: 'pair', id: 'users' }, counters, processes), el('div', { class: 'pair' }, slabs, files)];
}

