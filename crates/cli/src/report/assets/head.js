// The head: the cause of the crash, and the machine.

const KINDS = {
  panic: 'Kernel panic', oops: 'Fault', lockup: 'Lockup', 'hung-task': 'Hung task', stall: 'RCU stall',
  hardware: 'Hardware error', request: 'Requested crash',
};

function fact(name, value, mono) {
  if (value === undefined || value === null || value === '') return null;
  return el('div', {}, el('dt', {}, name), el('dd', { class: mono ? 'mono' : null }, String(value)));
}

function taskOf(event) {
  let text = event.command || '';
  if (event.pid !== undefined) text += ` (PID ${event.pid})`;
  return text.trim();
}

/** `2026-11-21 16:05:12 UTC`. */
function dateOf(time) {
  const date = new Date(time * 1000);
  return Number.isNaN(date.getTime()) ? null : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function upTime(nanoseconds) {
  const all = nanoseconds / 1e9;
  const days = Math.floor(all / 86400);
  const rest = new Date((all % 86400) * 1000).toISOString().slice(11, 19);
  return days ? `${days} d ${rest}` : all < 3600 ? `${all.toFixed(1)} s` : rest;
}

function traceOf(event) {
  if (!event || !event.trace || !event.trace.length) return null;
  const sure = event.trace.filter((call) => !call.startsWith('? ')).length;
  const calls = event.trace.map((call) => el('li', { class: call.startsWith('? ') ? 'mono unsure' : 'mono' }, call));
  return el('details', { class: 'trace', open: true },
    el('summary', {}, `Call trace, ${sure} calls`, sure < calls.length ? ' (?: only found on the stack)' : ''),
    el('ol', { tabindex: '0', 'aria-label': 'Call trace, the innermost first' }, calls));
}

function makeHead() {
  const { overview } = data;
  const { dump, kernel, memory } = overview;
  const crash = overview.crash || {};
  const first = crash.panic || crash.cause;
  const event = [crash.panic, crash.cause].find((one) => one && one.trace.length) || first;
  const title = first ? first.message
    : overview.crash ? 'The log has no panic and no fault' : 'Cause unknown: the dump has no readable log';
  const tag = crash.panic ? KINDS.panic : crash.cause ? `No panic in the log; last: ${KINDS[crash.cause.kind] || crash.cause.kind}` : 'No crash';
  const at = first && first.ts_nsec !== undefined ? first.ts_nsec : crash.last_ts_nsec;
  const card = el('section', { class: first ? 'card crash' : 'card crash calm', id: 'crash', 'aria-labelledby': 'crash-title' },
    el('span', { class: 'tag' }, tag),
    el('h1', { id: 'crash-title' }, title));
  if (crash.panic && crash.cause) {
    card.append(el('p', { class: 'cause' }, el('strong', {}, `${KINDS[crash.cause.kind] || crash.cause.kind}: `), crash.cause.message));
  }
  card.append(el('dl', { class: 'facts' },
    fact('Signature', overview.signature && overview.signature.title),
    event ? fact('Task', taskOf(event)) : null,
    event ? fact('On CPU', overview.cpus ? `${event.cpu ?? '?'} of ${overview.cpus}` : event.cpu) : fact('CPUs', overview.cpus),
    event ? fact('At', event.instruction, true) : null,
    fact('When', overview.crash_time ? dateOf(overview.crash_time) : null),
    at !== undefined ? fact('Time since boot', upTime(at)) : null,
    fact('Host', kernel.host),
    fact('Kernel', `${kernel.system} ${kernel.release} ${kernel.machine}`),
    fact('Version', kernel.version),
    fact('Build id', kernel.build_id, true),
    fact('Memory', memory.pages ? `${bytes(memory.pages * memory.page_size)}, ${bytes((memory.pages_in_dump || 0) * memory.page_size)} in the dump` : null),
    fact('Dump', `${dump.format}, level ${dump.dump_level}, ${dump.complete ? 'complete' : 'INCOMPLETE'}`)));
  const trace = traceOf(event);
  if (trace) card.append(trace);
  const warnings = [...(overview.warnings || [])];
  if (dump.damage) warnings.unshift(dump.damage);
  if (dump.live) warnings.unshift('The kernel was running while it was dumped: related data may be from different moments.');
  if (dump.erased && dump.erased.length) warnings.unshift(`${dump.erased.length} data items were erased from the dump.`);
  card.append(...notes(warnings));
  document.getElementById('sections').append(el('a', { href: '#crash' }, 'Crash'));
  // The kernel reports a host without a name as (none).
  const name = kernel.host && kernel.host !== '(none)' ? kernel.host : data.name || 'Crash dump';
  document.getElementById('brand').textContent = name;
  document.title = `${name}: ${title}`;
  return card;
}

