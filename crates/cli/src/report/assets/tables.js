// Tables: sortable, with bars.

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
