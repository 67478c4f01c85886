// Why the machine stopped: findings with their evidence, and the picture of who waits for whom.

const WEIGHTY = 50;

function listOf(title, texts) {
  if (!texts.length) return [];
  return [el('dt', {}, title), ...texts.map((text) => el('dd', { class: 'mono' }, text))];
}

function findingOf(finding) {
  const weighty = finding.weight >= WEIGHTY;
  const tasks = finding.tasks.map((task) => `${task.name} (PID ${task.pid}), ${task.state}, at ${task.address}`);
  const places = finding.places.map((place) => `${place.what}${place.symbol ? ` ${place.symbol}` : ''} at ${place.address}`);
  return el('details', { class: 'finding', open: weighty },
    el('summary', {}, el('strong', {}, finding.kind), ` ${finding.title}`,
      el('span', { class: 'sure' }, `${finding.sure}, weight ${finding.weight}${weighty ? '' : ', a remark'}`)),
    el('ul', {}, finding.because.map((reason) => el('li', {}, reason))),
    el('dl', {}, listOf('Tasks', tasks), listOf('CPUs', finding.cpus.length ? [finding.cpus.join(', ')] : []),
      listOf('Places', places), listOf('More', finding.more)));
}

/** The picture is shown as an image: in one, no script runs and nothing is loaded. */
function waitPicture(waits) {
  if (!isKnown(waits)) return notes([`Who waits for whom is not known: ${waits.not_known}.`]);
  if (!waits.svg) return [];
  const picture = el('img', {
    src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(waits.svg)}`, id: 'wait-graph',
    alt: `Who waits for whom: ${waits.shown} tasks; ${waits.waits} are blocked`,
  });
  return [el('div', { class: 'scroller picture', tabindex: '0', role: 'region', 'aria-label': 'Who waits for whom' }, picture)];
}

function makeFindings() {
  const title = 'Findings';
  const part = data.findings;
  if (!isKnown(part)) return unknownSection('findings', title, part);
  const { diagnosis, waits } = part;
  const weighty = diagnosis.findings.some((finding) => finding.weight >= WEIGHTY);
  const missing = [
    ...diagnosis.left_out.map((left) => `Not shown: ${left.count} more findings of the kind ${left.finding}.`),
    ...diagnosis.skipped.map((skipped) => `Not searched for: ${skipped.finding}: ${skipped.reason}.`),
    ...(diagnosis.complete ? [] : ['The time ran out before the end of the search.']),
  ];
  return section('findings', title,
    el('p', { class: 'lead' }, weighty ? 'Why the machine stopped, the weightiest first. Each has its evidence in the dump.'
      : 'Nothing was found that explains why the machine stopped.'),
    diagnosis.findings.map(findingOf), waitPicture(waits), ...notes(missing));
}

