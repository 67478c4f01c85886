// The crashes of many machines: buckets, hosts with many titles.

const SHOWN_KERNELS = 3;
const MAX_CARDS = 200;
const DAY_MS = 86400000;

function date(time) {
  return time === null || time === undefined ? '' : new Date(time).toISOString().slice(0, 10);
}

function kernels(bucket) {
  const names = bucket.kernels.slice(0, SHOWN_KERNELS).map((kernel) => kernel.release);
  const more = bucket.kernels.length - names.length;
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** The days from the first to the last crash of all buckets, in at most 60 steps. */
const steps = (() => {
  const days = data.buckets.flatMap((bucket) => bucket.days.map((day) => day.day));
  const first = days.reduce((a, b) => Math.min(a, b), Infinity);
  const last = days.reduce((a, b) => Math.max(a, b), -Infinity);
  const width = Math.max(1, Math.ceil((last - first + 1) / 60));
  return { first, width, count: days.length ? Math.ceil((last - first + 1) / width) : 0 };
})();

/** Creates a bucket's bars over time. */
function timeBars(bucket) {
  const counts = new Array(steps.count).fill(0);
  for (const { day, crashes } of bucket.days) counts[Math.floor((day - steps.first) / steps.width)] += crashes;
  const largest = Math.max(1, ...counts);
  const bars = counts.map((count, index) => {
    const from = date((steps.first + index * steps.width) * DAY_MS);
    const bar = el('i', { title: `${from}: ${count}` });
    bar.style.height = count ? `${Math.max(12, (100 * count) / largest)}%` : '0';
    return bar;
  });
  const label = `${bucket.crashes} crashes from ${date(bucket.first)} to ${date(bucket.last)}`;
  return el('div', { class: 'bars', role: 'img', 'aria-label': label }, bars);
}

function link(bucket) {
  return el('a', { href: `#bucket-${bucket.id}` }, bucket.title);
}

function fact(name, ...values) {
  return el('div', {}, el('dt', {}, name), el('dd', {}, values));
}

function bucketCard(bucket) {
  const others = bucket.titles.slice(1);
  const similar = bucket.similar.map((one) => el('div', {}, link(one), ` (${one.score.toFixed(2)})`));
  return el('section', { class: 'card', id: `bucket-${bucket.id}` }, el('h2', {}, bucket.title),
    ...(bucket.corrupted ? notes(['The reports are cut or mixed with others: the title may be wrong.']) : []),
    timeBars(bucket),
    el('dl', { class: 'facts' },
      fact('Machines', grouped(bucket.machines) + (bucket.without_host ? `, and ${grouped(bucket.without_host)} crashes without a host` : '')),
      fact('Crashes', grouped(bucket.crashes)),
      fact('Seen', `${date(bucket.first)} to ${date(bucket.last)}`),
      fact('Kernels', ...bucket.kernels.map((kernel) => el('div', {}, `${kernel.release}: ${grouped(kernel.crashes)}`))),
      others.length ? fact('Also as', ...others.map((title) => el('div', {}, title))) : null,
      similar.length ? fact('Similar stacks', ...similar) : null,
      fact('Id', el('span', { class: 'mono' }, bucket.id))),
    bucket.frames.length ? el('details', { class: 'trace' }, el('summary', {}, 'Stack, without functions that are never to blame'),
      el('ol', { class: 'mono' }, bucket.frames.map((frame) => el('li', {}, frame)))) : null);
}

function makeBuckets() {
  const lead = `${grouped(data.rows)} dumps and logs of ${grouped(data.machines)} machines; ${grouped(data.without_crash)} tell of no crash, ${grouped(data.failed)} could not be read.`;
  return section('buckets', 'Crashes', el('p', { class: 'lead' }, lead), ...table('Crashes', [
    { name: 'Machines', value: (row) => row.machines, text: (row) => grouped(row.machines), bar: true },
    { name: 'Crash', value: (row) => row.title, text: link, name_like: true },
    { name: 'Over time', value: (row) => row.last, text: timeBars },
    { name: 'Crashes', value: (row) => row.crashes, text: (row) => grouped(row.crashes), number: true },
    { name: 'First seen', value: (row) => row.first, text: (row) => date(row.first) },
    { name: 'Last seen', value: (row) => row.last, text: (row) => date(row.last) },
    { name: 'Kernels', value: (row) => row.kernels.length, text: kernels, name_like: true },
  ], data.buckets));
}

function makeHosts() {
  if (!data.hosts.length) return null;
  return section('hosts', 'Hosts with many titles', el('p', { class: 'lead' }, 'One bug has one title. A host that crashes in many ways may have bad hardware.'),
    ...table('Hosts with many titles', [
      { name: 'Titles', value: (row) => row.titles.length, text: (row) => grouped(row.titles.length), bar: true },
      { name: 'Host', value: (row) => row.host, name_like: true },
      { name: 'Crashes', value: (row) => row.crashes, text: (row) => grouped(row.crashes), number: true },
      { name: 'Of', value: (row) => row.titles[0], text: (row) => row.titles.slice(0, 5).join('; '), name_like: true },
    ], data.hosts));
}

document.getElementById('brand').textContent = 'Crashes';
const left = data.buckets.length - MAX_CARDS;
document.getElementById('main').replaceChildren(...[makeBuckets(), makeHosts(),
  ...data.buckets.slice(0, MAX_CARDS).map(bucketCard),
  left > 0 ? el('p', { class: 'note' }, `${grouped(left)} more buckets are in the table above only.`) : null].filter(Boolean));
document.getElementById('footer').textContent = `Made by ${data.made_by}. This page is self-contained and loads nothing.`;
