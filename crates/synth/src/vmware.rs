//! VMware's saved state of a machine (docs/formats/vmware.md).

use crate::machine::Machine;

const NAME: usize = 64;
const GROUP: usize = 80;

impl Machine {
    /// Returns the saved state with the memory in it.
    pub fn vmware_state(&self) -> Vec<u8> {
        let memory = self.raw_image().0;
        self.state(Some(&memory))
    }

    /// Returns the saved state (.vmss), and the memory beside it (.vmem).
    pub fn vmware_files(&self) -> (Vec<u8>, Vec<u8>) {
        (self.state(None), self.raw_image().0)
    }

    fn state(&self, memory: Option<&[u8]>) -> Vec<u8> {
        let mut cpu = Vec::new();
        let count = self.spec().options.cpus;
        value(&mut cpu, "cpu:numVCPUs", &[], &count.to_le_bytes());
        for number in 0..count {
            let registers = self.registers(number);
            let pairs = [("rip", registers.pc), ("rsp", registers.sp)];
            if number % 2 == 0 {
                value(&mut cpu, "rbp", &[number], &registers.fp.to_le_bytes());
                for (name, number_of) in pairs {
                    value(&mut cpu, name, &[number], &number_of.to_le_bytes());
                }
                value(
                    &mut cpu,
                    "CR64",
                    &[number, 3],
                    &self.top_table().to_le_bytes(),
                );
            } else {
                // rax, rcx, rdx, rbx, rbp, rsp …
                let mut general = [0; 128];
                general[32..40].copy_from_slice(&registers.fp.to_le_bytes());
                general[40..48].copy_from_slice(&registers.sp.to_le_bytes());
                block(&mut cpu, "gpregs", &[number], &general, 3);
                value(&mut cpu, "rip", &[number], &registers.pc.to_le_bytes());
            }
        }
        cpu.extend([0; 2]);

        let mut regions = Vec::new();
        let ram = self.ram();
        value(&mut regions, "align_mask", &[0], &0xffff_u32.to_le_bytes());
        value(
            &mut regions,
            "regionsCount",
            &[],
            &(ram.len() as u32).to_le_bytes(),
        );
        let mut page = 0;
        for (index, range) in ram.iter().enumerate() {
            let pages = (range.end - range.start) as u32;
            let numbers = [
                ("regionPageNum", page),
                ("regionPPN", range.start as u32),
                ("regionSize", pages),
            ];
            for (name, number) in numbers {
                value(&mut regions, name, &[index as u32], &number.to_le_bytes());
            }
            page += pages;
        }
        if let Some(memory) = memory {
            block(&mut regions, "Memory", &[0, 0], memory, 11);
        }
        regions.extend([0; 2]);

        let groups = [
            ("Checkpoint", vec![0, 0]),
            ("cpu", cpu),
            ("memory", regions),
        ];
        let mut out = Vec::new();
        for word in [0xbed2_bed2_u32, 8, groups.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        let mut at = out.len() + GROUP * groups.len();
        for (name, body) in &groups {
            let start = out.len();
            out.extend(name.as_bytes());
            out.resize(start + NAME, 0);
            out.extend((at as u64).to_le_bytes());
            out.extend((body.len() as u64).to_le_bytes());
            at += body.len();
        }
        out.extend(groups.into_iter().flat_map(|(_, body)| body));
        out
    }
}

fn tag(out: &mut Vec<u8>, name: &str, indices: &[u32], size: u16) {
    let tag = (name.len() as u16) << 8 | (indices.len() as u16) << 6 | size;
    out.extend(tag.to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
}

fn value(out: &mut Vec<u8>, name: &str, indices: &[u32], value: &[u8]) {
    tag(out, name, indices, value.len() as u16);
    out.extend(value);
}

fn block(out: &mut Vec<u8>, name: &str, indices: &[u32], bytes: &[u8], padding: usize) {
    tag(out, name, indices, 0x3f);
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend((padding as u16).to_le_bytes());
    out.extend(vec![0xee; padding]);
    out.extend(bytes);
}
