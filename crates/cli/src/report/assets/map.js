// Memory by use along the physical addresses, and the part of it in the dump.

const MAP_HEIGHT = 230;
const STORED_HEIGHT = 110;
const TICKS = 22;
// Fields of a bin: number, page frames of RAM, page frames in the dump, bytes stored; then pairs of class and count.
const [RAM, PRESENT, STORED, COUNTS] = [1, 2, 3, 4];

/** Sums the bins between two positions on the axis. */
function sumOf(map, axis, from, to) {
  const sum = { ram: 0, present: 0, stored: 0, frames: 0, counts: new Array(map.classes.length).fill(0) };
  for (const [first, end] of axis.bins(from, to)) {
    for (let index = first; index < end; index += 1) {
      const bin = map.bins[index];
      sum.ram += bin[RAM];
      sum.present += bin[PRESENT];
      sum.stored += bin[STORED];
      sum.frames += map.bin_frames;
      for (let at = COUNTS; at < bin.length; at += 2) sum.counts[bin[at]] += bin[at + 1];
    }
  }
  return sum;
}

function makeMap() {
  const { map } = data;
  if (!isKnown(map) || !map.bins.length) return unknownSection('memory', 'Memory', isKnown(map) ? { not_known: 'the dump has no memory' } : map);
  const axis = makeAxis(map);
  const shown = map.classes.map(() => true);
  const used = map.classes.map((_, index) => index).filter((index) => map.total[index] > 0);
  const canvas = el('canvas', {
    tabindex: '0', role: 'img', id: 'map-canvas', 'aria-describedby': 'map-told',
    'aria-label': 'Memory by use along the physical addresses. Arrow keys move the cursor, + and - zoom, 0 shows everything.',
  });
  const below = map.stored === null ? null : el('canvas', { role: 'img', id: 'stored-canvas', 'aria-label': 'Bytes in the dump along the physical addresses' });
  const tip = el('div', { class: 'tip', hidden: true, role: 'presentation' });
  const told = el('output', { class: 'hidden', id: 'map-told', 'aria-live': 'polite' });
  const range = el('span', { class: 'range', id: 'map-range' });
  let pointed = null;

  const columns = (width, view) => {
    const step = (view.to - view.from) / width;
    return Array.from({ length: width }, (_, x) => sumOf(map, axis, view.from + x * step, view.from + (x + 1) * step));
  };

  const paintMap = () => {
    const { context, width, height: all, scale } = fit(canvas, MAP_HEIGHT);
    const height = all - Math.round(TICKS * scale);
    const colours = map.classes.map((one) => colour(`class-${one.name}`));
    context.fillStyle = colour('card');
    context.fillRect(0, 0, width, all);
    hatch(context, width, height, scale);
    const ground = colour('raised');
    columns(width, view).forEach((sum, x) => {
      if (!sum.frames) return;
      context.fillStyle = ground;
      context.fillRect(x, 0, 1, height);
      let bottom = height;
      for (const index of used) {
        if (!shown[index] || !sum.counts[index]) continue;
        const size = (sum.counts[index] / sum.frames) * height;
        context.fillStyle = colours[index];
        context.fillRect(x, bottom - size, 1, size);
        bottom -= size;
      }
    });
    if (pointed !== null) {
      context.fillStyle = colour('text');
      context.fillRect(Math.floor(pointed * width), 0, Math.ceil(scale), height);
    }
    ticks(context, width, height, scale);
  };

  const paintStored = () => {
    if (!below) return;
    const { context, width, height, scale } = fit(below, STORED_HEIGHT);
    context.fillStyle = colour('card');
    context.fillRect(0, 0, width, height);
    hatch(context, width, height, scale);
    const [raw, stored, ground] = ['raw', 'stored', 'raised'].map(colour);
    columns(width, view).forEach((sum, x) => {
      if (!sum.frames) return;
      const all = sum.frames * map.page_size;
      context.fillStyle = ground;
      context.fillRect(x, 0, 1, height);
      for (const [style, count] of [[raw, sum.present * map.page_size], [stored, sum.stored]]) {
        const size = Math.min(1, count / all) * height;
        context.fillStyle = style;
        context.fillRect(x, height - size, 1, size);
      }
    });
    if (pointed !== null) {
      context.fillStyle = colour('text');
      context.fillRect(Math.floor(pointed * width), 0, Math.ceil(scale), height);
    }
  };

  /** Hatches the background, which shows where there is no RAM. */
  function hatch(context, width, height, scale) {
    context.save();
    context.beginPath();
    context.rect(0, 0, width, height);
    context.clip();
    context.strokeStyle = colour('hole');
    context.lineWidth = 2 * scale;
    context.beginPath();
    for (let x = -height; x < width; x += 8 * scale) {
      context.moveTo(x, height);
      context.lineTo(x + height, 0);
    }
    context.stroke();
    context.restore();
  }

  function ticks(context, width, height, scale) {
    context.fillStyle = colour('soft');
    context.font = `${11 * scale}px system-ui, sans-serif`;
    context.textBaseline = 'top';
    const count = Math.max(2, Math.floor(width / (150 * scale)));
    for (let number = 0; number <= count; number += 1) {
      const share = number / count;
      const text = bytes(axis.address(view.from + (view.to - view.from) * share));
      const size = context.measureText(text).width;
      context.fillRect(Math.min(width - 1, Math.floor(share * width)), height, Math.ceil(scale), 5 * scale);
      context.fillText(text, Math.min(width - size, Math.max(0, share * width - size / 2)), height + 8 * scale);
    }
  }

  const point = (share) => {
    pointed = share;
    paint();
    if (share === null) {
      tip.hidden = true;
      told.textContent = '';
      return;
    }
    const width = Math.max(1, canvas.clientWidth);
    const size = view.to - view.from;
    const from = view.from + (Math.floor(share * width) / width) * size;
    const sum = sumOf(map, axis, from, from + size / width);
    const rows = used.filter((index) => sum.counts[index] > 0);
    rows.sort((a, b) => sum.counts[b] - sum.counts[a]);
    const bounds = boundsOf(from, from + size / width);
    const title = sum.frames ? `${hex(bounds[0])} – ${hex(bounds[1] - 1)}` : 'no memory';
    const line = (key, name, value) => el('tr', {}, el('td', {}, key), el('td', {}, name), el('td', {}, value));
    tip.replaceChildren(el('strong', { class: 'mono' }, title),
      el('table', {},
        rows.map((index) => line(swatch(map.classes[index].name), map.classes[index].title,
          `${grouped(sum.counts[index])} pages · ${percent(sum.counts[index], sum.ram)}`)),
        sum.frames ? line('', 'in the dump', percent(sum.present, sum.ram)) : null,
        sum.frames && below && sum.present ? line('', 'stored as', `${bytes(sum.stored)} of ${bytes(sum.present * map.page_size)}`) : null));
    tip.hidden = false;
    const left = Math.min(Math.max(0, share * width + 14), Math.max(0, width - tip.offsetWidth));
    tip.style.left = `${share * width + 14 + tip.offsetWidth > width ? Math.max(0, share * width - 14 - tip.offsetWidth) : left}px`;
    tip.style.top = `${canvas.offsetTop + 12}px`;
    told.textContent = `${title}: ${rows.map((index) => `${map.classes[index].title} ${percent(sum.counts[index], sum.ram)}`).join(', ')}`;
  };

  /** Returns the address range of the bins between two positions. */
  function boundsOf(from, to) {
    const found = axis.bins(from, to);
    if (!found.length) return [0, 1];
    const [first, last] = [found[0][0], found[found.length - 1][1] - 1];
    return [map.bins[first][0] * axis.width, (map.bins[last][0] + 1) * axis.width];
  }

  const paint = () => {
    paintMap();
    paintStored();
    range.textContent = `${hex(axis.address(view.from))} – ${hex(axis.address(view.to))}`;
  };
  let asked = false;
  const view = makeView(axis, () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      paint();
    });
  });
  painters.push(paint);
  for (const one of [canvas, below]) if (one) steer(one, view, point);

  const button = (text, label, work) => el('button', { type: 'button', 'aria-label': label, title: label, onclick: work }, text);
  const legend = el('ul', { class: 'legend', 'aria-label': 'Uses of memory; click to hide or show one in the map' },
    used.map((index) => {
      const one = el('button', { type: 'button', 'aria-pressed': 'true', 'data-class': map.classes[index].name,
        onclick: () => {
          shown[index] = !shown[index];
          one.setAttribute('aria-pressed', String(shown[index]));
          paint();
        } },
      swatch(map.classes[index].name), el('span', {}, map.classes[index].title),
      el('span', { class: 'amount' }, `${bytes(map.total[index] * map.page_size)} · ${percent(map.total[index], map.ram)}`));
      return el('li', {}, one);
    }));

  return section('memory', 'Memory',
    el('p', { class: 'lead' }, `${bytes(map.ram * map.page_size)} of RAM by physical address; each column covers at least ${bytes(axis.width)}. Hatched areas are not RAM. `,
      'Drag to move, pinch or turn the wheel with Ctrl to zoom, point to see details.'),
    el('div', { class: 'tools' },
      button('+', 'Zoom in', () => view.zoom(2, 0.5)), button('−', 'Zoom out', () => view.zoom(0.5, 0.5)),
      button('◀', 'To lower addresses', () => view.move(-0.5)), button('▶', 'To higher addresses', () => view.move(0.5)),
      button('All', 'Show all of memory', () => view.reset()), el('span', { class: 'fill' }), range),
    el('div', { class: 'plot' }, canvas, tip, told,
      legend,
      el('h3', {}, 'In the dump'),
      below ? [below, el('div', { class: 'key' },
        el('span', {}, swatch('raw', true), `${bytes(map.present * map.page_size)} of memory in the dump`),
        el('span', {}, swatch('stored', true), `stored as ${bytes(map.stored)} (${(map.present * map.page_size / Math.max(1, map.stored)).toFixed(1)} times smaller)`))]
        : el('p', { class: 'soft' }, `${bytes(map.present * map.page_size)}: this format stores pages uncompressed.`)),
    ...notes(map.warnings));
}

function swatch(name, plain) {
  const node = el('span', { class: 'swatch', 'aria-hidden': 'true' });
  node.style.background = `var(--${plain ? '' : 'class-'}${name})`;
  return node;
}

