// An axis of physical addresses, on which long holes are shortened.

/** Positions of the bins. A position on the axis is a number from 0 to `length`. */
function makeAxis(map) {
  const width = map.bin_frames * map.page_size;
  const numbers = map.bins.map((bin) => bin[0]);
  const shortest = Math.max(1, numbers.length * 0.012);
  const pieces = [];
  let length = 0;
  for (let first = 0; first < numbers.length;) {
    let end = first + 1;
    while (end < numbers.length && numbers[end] === numbers[end - 1] + 1) end += 1;
    const before = pieces[pieces.length - 1];
    if (before) {
      const hole = numbers[first] - (before.number + before.count);
      // A hole longer than the memory around it would hide that memory.
      length += Math.min(hole, shortest * (hole > shortest * 8 ? 2 : 1));
    }
    pieces.push({ start: length, count: end - first, first, number: numbers[first] });
    length += end - first;
    first = end;
  }
  /** Returns the piece that begins at or before a position. */
  const pieceAt = (place) => {
    let low = 0;
    let high = pieces.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pieces[middle].start <= place) low = middle + 1;
      else high = middle;
    }
    return pieces[low - 1];
  };
  return {
    length: Math.max(length, 1),
    width,
    pieces,
    /** Returns the bins between two positions: index of the first, and index after the last, for each piece. */
    bins(from, to) {
      const found = [];
      for (const piece of pieces) {
        if (piece.start + piece.count <= from) continue;
        if (piece.start >= to) break;
        const low = Math.max(0, Math.floor(from - piece.start));
        const high = Math.min(piece.count, Math.max(low + 1, Math.ceil(to - piece.start)));
        found.push([piece.first + low, piece.first + high]);
      }
      return found;
    },
    /** Returns the physical address at a position; in a hole, the address at which the hole begins. */
    address(place) {
      const piece = pieceAt(place) || pieces[0];
      if (!piece) return 0;
      return (piece.number + Math.min(place - piece.start, piece.count)) * width;
    },
  };
}

/** The visible part of an axis, shared by everything drawn along it. */
function makeView(axis, changed) {
  const least = Math.min(8, axis.length);
  const view = {
    from: 0,
    to: axis.length,
    set(from, to) {
      const size = Math.min(axis.length, Math.max(least, to - from));
      view.from = Math.min(Math.max(0, from), axis.length - size);
      view.to = view.from + size;
      changed();
    },
    /** Zooms by a factor around a fraction of the width: 0 is left, 1 is right. */
    zoom(factor, around) {
      const size = view.to - view.from;
      const fixed = view.from + size * around;
      const next = Math.min(axis.length, Math.max(least, size / factor));
      view.set(fixed - next * around, fixed - next * around + next);
    },
    move(share) {
      const by = (view.to - view.from) * share;
      view.set(view.from + by, view.to + by);
    },
    reset() {
      view.set(0, axis.length);
    },
  };
  return view;
}

/** Handles wheel, drag, pinch and keys on a canvas. */
function steer(canvas, view, point) {
  const pointers = new Map();
  const share = (x) => {
    const box = canvas.getBoundingClientRect();
    return Math.min(1, Math.max(0, (x - box.left) / Math.max(1, box.width)));
  };
  canvas.addEventListener('wheel', (event) => {
    // Scrolling past the map must not zoom it.
    if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(event.deltaX / 800);
    else view.zoom(Math.exp(-event.deltaY / 300), share(event.clientX));
    point(share(event.clientX));
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    pointers.set(event.pointerId, event.clientX);
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is already released.
    }
    point(share(event.clientX));
  });
  canvas.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId);
    if (before !== undefined && pointers.size === 1) {
      view.move(share(before) - share(event.clientX));
      pointers.set(event.pointerId, event.clientX);
    } else if (before !== undefined && pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const [was, is] = [Math.abs(before - other), Math.abs(event.clientX - other)];
      if (was > 8 && is > 8) view.zoom(is / was, (share(event.clientX) + share(other)) / 2);
      pointers.set(event.pointerId, event.clientX);
    }
    point(share(event.clientX));
  });
  const up = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => {
    if (document.activeElement !== canvas) point(null);
  });
  let cursor = 0.5;
  canvas.addEventListener('keydown', (event) => {
    const step = event.shiftKey ? 0.1 : 0.01;
    const moves = { ArrowLeft: -step, ArrowRight: step, Home: -1, End: 1 };
    if (moves[event.key] !== undefined) {
      cursor = Math.min(1, Math.max(0, cursor + moves[event.key]));
      if (cursor === 0 || cursor === 1) view.move(moves[event.key] > 0 ? 0.1 : -0.1);
    } else if (event.key === '+' || event.key === '=') view.zoom(1.5, cursor);
    else if (event.key === '-') view.zoom(1 / 1.5, cursor);
    else if (event.key === '0') view.reset();
    else if (event.key === 'Escape') canvas.blur();
    else return;
    event.preventDefault();
    if (document.activeElement === canvas) point(cursor);
  });
  canvas.addEventListener('blur', () => point(null));
}

/**
 * Sizes a canvas in device pixels, so that columns do not blur into each other. Returns its context, its size in device
 * pixels, and the number of device pixels per CSS pixel.
 */
function fit(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.round(height * scale);
  return { context: canvas.getContext('2d'), width: canvas.width, height: canvas.height, scale };
}

