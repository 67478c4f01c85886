//! `bigiron info --modules`.

use bigiron_inspect::{Module, Program};

use super::topic::Topic;
use crate::size;

/// Name of the topic in JSON.
pub const NAME: &str = "modules";

/// Finds all modules.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    let found = program.modules();
    let rows: Vec<Vec<String>> = found.list.iter().map(row).collect();
    let gaps = found.list.iter().flat_map(|module| {
        let of = |gap: &String| format!("{}: {gap}", module.name);
        module.missing.iter().map(of)
    });
    let gaps: Vec<String> = gaps.chain(found.missing.clone()).collect();
    let bytes = found
        .list
        .iter()
        .fold(0_u64, |sum, module| sum.saturating_add(module.size));
    let heading = format!("modules: {}, {}", rows.len(), size::format(bytes));
    Ok(Topic {
        name: NAME,
        json: serde_json::to_value(found)?,
        text: Box::new(move |page| {
            let columns = [
                "name", "bytes", "base", "state", "taints", "users", "used by",
            ];
            page.table(&heading, &columns, &[1, 5], &rows);
            for gap in &gaps {
                page.line("", &format!("not known: {gap}"));
            }
        }),
    })
}

fn row(module: &Module) -> Vec<String> {
    let users = module.references.map(|count| count.to_string());
    vec![
        module.name.clone(),
        module.size.to_string(),
        module.base.to_string(),
        module.state.clone(),
        module.taints.clone(),
        users.unwrap_or_default(),
        module.used_by.join(" "),
    ]
}
