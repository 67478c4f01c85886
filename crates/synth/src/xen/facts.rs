//! What the notes lead to: texts about the build, the console, the table of
//! symbols, and the hypervisor's VMCOREINFO.

use super::build::{Builder, DOMAIN_ID, NEXT_IN_LIST, ROOT, VARIABLES};
use super::cpus::FUNCTIONS;
use super::symbols;

/// Offsets in the image.
const TEXTS: u64 = 0x3000;
const COMMAND_LINE: u64 = 0x3400;
const CONSOLE: u64 = 0x3800;
const CONSOLE_SIZE: u64 = 0x400;
const SYMBOLS: u64 = 0x8000;

impl Builder {
    /// Writes the texts about the build and the table of symbols; returns the words of the note.
    pub(super) fn texts(&mut self, lists: u64) -> Vec<u64> {
        let texts = [
            ".5-synthetic",
            "deadbeef",
            "cc 1.0",
            "Tue Nov 24 2026",
            "12:00:00",
        ];
        let (major, minor) = self.spec.version;
        let mut words = vec![major, minor];
        for (index, text) in texts.iter().enumerate() {
            let at = self.start() + TEXTS + 64 * index as u64;
            self.memory.put(at, text.as_bytes());
            words.push(at);
        }
        words.extend([0, self.start(), lists]);
        let ring = self.start() + CONSOLE;
        let text = b"(XEN) 'C' pressed -> triggering crashdump\n\
            (XEN) Executing kexec image on cpu0\n";
        // The text begins at the end of the ring, and goes on at its start.
        let first = CONSOLE_SIZE as usize - 12;
        self.memory.put(ring + first as u64, &text[..12]);
        self.memory.put(ring, &text[12..]);
        self.memory
            .put64(self.variable(6), self.virt_start() + CONSOLE);
        self.memory.put64(self.variable(7), CONSOLE_SIZE);
        let end = CONSOLE_SIZE * 3 + text.len() as u64 - 12;
        self.memory.put64(self.variable(8), end);
        if self.spec.symbols {
            let filler = (0..600).map(|at| (0x4000 + at, format!("tfunction_{at}")));
            let variables = [
                (0, "Ddomain_list"),
                (4, "bcommon/page_alloc.c#total_avail_pages"),
                (6, "ddrivers/char/console.c#conring"),
                (7, "ddrivers/char/console.c#conring_size"),
                (8, "bdrivers/char/console.c#conringp"),
            ];
            let variables = variables.map(|(index, name)| {
                let at = VARIABLES as u32 + 8 * index;
                (at, name.to_owned())
            });
            let command_line = (COMMAND_LINE as u32, "bcommon/kernel.c#saved_cmdline".into());
            self.memory
                .put(self.start() + COMMAND_LINE, b"dom0_mem=2M crashkernel=1M\0");
            let functions = FUNCTIONS.map(|(at, name)| (at, name.to_owned()));
            let all: Vec<_> = variables
                .into_iter()
                .chain([command_line])
                .chain(filler)
                .chain(functions)
                .collect();
            self.memory
                .put(self.start() + SYMBOLS, &symbols::table(&all));
        }
        words
    }

    pub(super) fn vmcoreinfo(&self) -> String {
        let size = self.page_info_size();
        let (count, domain) = self.fields();
        let variable = |index: u64| self.virt_start() + VARIABLES + 8 * index;
        let mut lines = vec![
            "PAGESIZE=4096".to_owned(),
            format!("SYMBOL(domain_list)={:x}", variable(0)),
        ];
        if self.spec.frame_table_pointer {
            lines.push(format!("SYMBOL(frame_table)={:x}", variable(1)));
        }
        lines.extend([
            format!("SYMBOL(max_page)={:x}", variable(5)),
            format!("SIZE(page_info)={size}"),
            "SIZE(domain)=2432".to_owned(),
            format!("OFFSET(page_info.count_info)={count}"),
            format!("OFFSET(page_info._domain)={domain}"),
            format!("OFFSET(domain.domain_id)={DOMAIN_ID}"),
            format!("OFFSET(domain.next_in_list)={NEXT_IN_LIST}"),
            format!("SYMBOL(dom_xen)={:x}", variable(2)),
            format!("SYMBOL(dom_io)={:x}", variable(3)),
            format!("SYMBOL(pgd_l4)={:x}", self.virt_start() + ROOT),
        ]);
        lines.join("\n") + "\n"
    }
}
