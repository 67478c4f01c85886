//! Well-known variables and their types, since BTF has only per-CPU variables, and few or no
//! others.

/// The type of a kernel variable, in the syntax of `parse_type`.
pub fn type_of(variable: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(name, _)| *name == variable);
    found.map(|(_, written)| *written)
}

const KNOWN: [(&str, &str); 44] = [
    ("__cpu_online_mask", "cpumask"),
    ("__cpu_possible_mask", "cpumask"),
    ("__cpu_present_mask", "cpumask"),
    ("_totalram_pages", "atomic_long_t"),
    ("boot_cpu_data", "cpuinfo_x86"),
    ("btf_modules", "list_head"),
    ("cgrp_dfl_root", "cgroup_root"),
    ("clocksource_list", "list_head"),
    ("contig_page_data", "pglist_data"),
    ("init_cred", "cred"),
    ("init_css_set", "css_set"),
    ("init_files", "files_struct"),
    ("init_fs", "fs_struct"),
    ("init_ipc_ns", "ipc_namespace"),
    ("init_mm", "mm_struct"),
    ("init_net", "net"),
    ("init_nsproxy", "nsproxy"),
    ("init_pid_ns", "pid_namespace"),
    ("init_signals", "signal_struct"),
    ("init_task", "task_struct"),
    ("init_user_ns", "user_namespace"),
    ("init_uts_ns", "uts_namespace"),
    ("iomem_resource", "resource"),
    ("ioport_resource", "resource"),
    ("jiffies", "long unsigned int"),
    ("jiffies_64", "u64"),
    ("kexec_crash_image", "kimage*"),
    ("log_buf", "char*"),
    ("mem_section", "mem_section**"),
    ("modules", "list_head"),
    ("nr_cpu_ids", "unsigned int"),
    ("nr_swap_pages", "atomic_long_t"),
    ("panic_cpu", "atomic_t"),
    ("pgdat_list", "pglist_data*"),
    ("prb", "printk_ringbuffer*"),
    ("rcu_state", "rcu_state"),
    ("root_task_group", "task_group"),
    ("saved_command_line", "char*"),
    ("slab_caches", "list_head"),
    ("super_blocks", "list_head"),
    ("timekeeper_data", "timekeeper"),
    ("uevent_sock_list", "list_head"),
    ("vmap_area_list", "list_head"),
    ("vmcoreinfo_data", "unsigned char*"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_listed_once() {
        for (index, (name, written)) in KNOWN.iter().enumerate() {
            assert_eq!(type_of(name), Some(*written));
            assert!(KNOWN[..index].iter().all(|(before, _)| before != name));
        }
        assert_eq!(type_of("no_such_thing"), None);
    }
}
