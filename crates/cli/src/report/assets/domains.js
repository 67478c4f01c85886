// Scheduler domains as nested boxes.

const OPEN_BOXES = 96;

function makeDomains() {
  const part = data.domains;
  const title = 'Scheduler domains';
  if (!isKnown(part)) return unknownSection('domains', title, part);
  let opened = 0;
  const box = (node, siblings) => {
    const head = [el('span', { class: 'level' }, node.name), el('span', {}, `CPU ${node.span}`)];
    const flags = el('div', { class: 'flags' }, node.flags.map((flag) => flag.replace(/^SD_/, '').toLowerCase()).join(' · '));
    const children = node.children || [];
    if (!children.length) return el('div', { class: 'box', role: 'listitem', title: flags.textContent }, el('div', { class: 'leaf' }, ...head), siblings > 1 ? null : flags);
    // Boxes that contain boxes take the whole width; the innermost are side by side.
    const leaves = children.every((child) => !child.children);
    const inner = el('div', { class: leaves ? 'inner' : 'inner single', role: 'list' });
    // A large machine has thousands: they are created when they are opened.
    const make = () => {
      if (!inner.childElementCount) inner.append(...children.map((child) => box(child, children.length)));
    };
    const open = opened + children.length <= OPEN_BOXES;
    if (open) {
      opened += children.length;
      make();
    }
    return el('details', { class: 'box', role: 'listitem', open, ontoggle: make }, el('summary', {}, ...head), flags, inner);
  };
  const lead = part.roots.length
    ? `Sets of CPUs among which the scheduler balances load, the largest outermost. ${part.cpus} CPUs.`
    : `None: the scheduler does not balance load (${part.cpus} ${part.cpus === 1 ? 'CPU' : 'CPUs'}).`;
  const without = part.without.length && part.roots.length ? [`Without a domain, since offline or isolated: CPU ${part.without.join(', ')}.`] : [];
  return section('domains', title, el('p', { class: 'lead' }, lead),
    el('div', { role: 'list' }, part.roots.map((root) => box(root, 1))), ...notes([...without, ...part.warnings]));
}

