// Scheduling domains, as boxes in boxes.

const OPEN_BOXES = 96;

function makeDomains() {
  const part = data.domains;
  const title = 'Scheduling domains';
  if (!isKnown(part)) return unknownSection('domains', title, part);
  let opened = 0;
  const box = (node, siblings) => {
    const head = [el('span', { class: 'level' }, node.name), el('span', {}, `CPU ${node.span}`)];
    const flags = el('div', { class: 'flags' }, node.flags.map((flag) => flag.replace(/^SD_/, '').toLowerCase()).join(' · '));
    const children = node.children || [];
    if (!children.length) return el('div', { class: 'box', role: 'listitem', title: flags.textContent }, el('div', { class: 'leaf' }, ...head), siblings > 1 ? null : flags);
    // Boxes that hold boxes have the whole width; the innermost stand side by side.
    const leaves = children.every((child) => !child.children);
    const inner = el('div', { class: leaves ? 'inner' : 'inner single', role: 'list' });
    // A large machine has thousands: they are made when they are looked at.
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
    ? `Among which CPUs the scheduler balances load, the largest set outside. ${part.cpus} CPUs.`
    : `None: the kernel balances load among no CPUs (${part.cpus} ${part.cpus === 1 ? 'CPU' : 'CPUs'}).`;
  const without = part.without.length && part.roots.length ? [`Without a domain, offline or set apart: CPU ${part.without.join(', ')}.`] : [];
  return section('domains', title, el('p', { class: 'lead' }, lead),
    el('div', { role: 'list' }, part.roots.map((root) => box(root, 1))), ...notes([...without, ...part.warnings]));
}

