//! `bigiron info --sys`.

use bigiron_inspect::{Program, System};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "system";

/// Finds the facts about the system.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Ok(System::of(program)), show)
}

fn show(found: &System, page: &mut Page) {
    page.heading("system");
    for (name, text) in &found.machine {
        page.line("machine", &format!("{name}: {text}"));
    }
    page.optional("runs on", found.hypervisor.as_deref());
    page.optional("started", found.command_line.as_deref());
    let taints = found.taints.as_deref().map(|taints| match taints {
        "" => "no",
        taints => taints,
    });
    page.optional("tainted", taints);
    for (name, letters) in &found.tainting_modules {
        page.line("", &format!("{letters} by the module {name}"));
    }
    for (index, sysctl) in found.sysctls.iter().enumerate() {
        let label = if index == 0 { "sysctls" } else { "" };
        let (name, value, default) = (sysctl.name, sysctl.value, sysctl.default);
        page.line(
            label,
            &format!("{name} is {value}, and {default} by default"),
        );
    }
    page.optional("uptime", found.uptime_nsec.map(seconds).as_deref());
    let load = found.load.map(|load| {
        let [one, five, fifteen] = load;
        format!("{one:.2}, {five:.2}, {fifteen:.2} in 1, 5 and 15 minutes")
    });
    page.optional("load", load.as_deref());
    let silent = found.since_last_message_nsec.map(seconds);
    let silent = silent.map(|silent| format!("{silent} before the end"));
    page.optional("last log", silent.as_deref());
    for missing in &found.missing {
        page.line("", &format!("not known: {missing}"));
    }
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}
