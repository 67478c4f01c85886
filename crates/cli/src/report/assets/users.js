// The largest users of memory.

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

