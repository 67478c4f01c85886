// The time line of the dump.

const MAX_BARS = 8;
const PHASE_TITLES = { filter: 'Filter', copy: 'Copy', finish: 'Finish' };

function track(from, to, whole, kind) {
  const bar = el('i', { class: kind });
  bar.style.left = `${(100 * from) / whole}%`;
  bar.style.width = `${(100 * (to - from)) / whole}%`;
  return el('div', { class: 'track', 'aria-hidden': 'true' }, bar);
}

function makeTimeLine() {
  const part = data.time_line;
  if (!isKnown(part)) return unknownSection('time-line', 'Time line of the dump', part);
  const whole = Math.max(1e-9, part.phases.reduce((sum, phase) => sum + phase.seconds, 0));
  const rows = el('div', { class: 'rows' });
  const row = (name, bar, amount) => rows.append(el('div', { class: 'row' }, el('span', {}, name), bar, el('span', { class: 'amount' }, amount)));
  let at = 0;
  let copy = [0, whole];
  for (const phase of part.phases) {
    if (phase.name === 'copy') copy = [at, at + phase.seconds];
    row(PHASE_TITLES[phase.name] || phase.name, track(at, at + phase.seconds, whole), `${seconds(phase.seconds)} · ${percent(phase.seconds, whole)}`);
    at += phase.seconds;
  }
  const helpers = [...part.helpers].sort((a, b) => b - a);
  helpers.slice(0, MAX_BARS).forEach((time, index) => {
    row(`Helper ${index + 1}`, track(copy[0], Math.min(copy[0] + time, whole), whole, 'busy'), `${seconds(time)} copying`);
  });
  if (helpers.length > MAX_BARS) {
    const last = helpers[helpers.length - 1];
    row(`${helpers.length - MAX_BARS} more`, track(copy[0], copy[0] + last, whole, 'busy'), `${seconds(last)} to ${seconds(helpers[MAX_BARS])} each`);
  }
  const all = Math.max(1e-9, (copy[1] - copy[0]) * Math.max(1, helpers.length));
  if (part.waited_for_output !== null) row('Waiting for the output', track(0, Math.min(part.waited_for_output, all), all, 'wait'), `${seconds(part.waited_for_output)}, all helpers`);
  if (part.waited_for_helpers !== null) row('Waiting for helpers', track(copy[0], Math.min(copy[0] + part.waited_for_helpers, whole), whole, 'wait'), `${seconds(part.waited_for_helpers)}, the writer`);
  const lead = [`${seconds(whole)} in total`];
  if (part.bytes_in !== null && copy[1] > copy[0]) lead.push(`${bytes(part.bytes_in / (copy[1] - copy[0]))}/s copied`);
  if (part.bytes_out !== null) lead.push(`${bytes(part.bytes_out)} written`);
  if (part.peak_memory !== null) lead.push(`peak memory ${bytes(part.peak_memory)}`);
  return section('time-line', 'Time line of the dump', el('p', { class: 'lead' }, `${lead.join(', ')}. Source: ${part.from}.`), rows);
}

