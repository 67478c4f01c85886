//! Chooses dumps and logs among listed objects, by their names alone: reading the first bytes of
//! each would be a request for each.

use std::collections::HashSet;

use crate::find::{Found, is_table};

/// What is in the names of dumps.
const DUMPS: [&str; 2] = ["vmcore", "dump"];
/// What is in the names of copies of the kernel's log.
const COPY: &str = "dmesg";

/// Returns those of `objects` that are dumps or logs. Left out are, as of a directory: empty ones,
/// names that begin with a full stop, tables of this program, and a copy of the kernel's log
/// (`dmesg` in its name) beside a dump (`vmcore` or `dump` in its name).
pub fn choose(objects: Vec<Found>) -> Vec<Found> {
    let is_dump = |name: &str| DUMPS.iter().any(|word| name.contains(word)) && !name.contains(COPY);
    let with_dumps: HashSet<String> = objects
        .iter()
        .filter(|object| object.bytes > 0 && is_dump(split(&object.path).1))
        .map(|object| split(&object.path).0.to_owned())
        .collect();
    let is_wanted = |object: &Found| {
        let (directory, name) = split(&object.path);
        let is_copy = name.contains(COPY) && with_dumps.contains(directory);
        object.bytes > 0 && !name.starts_with('.') && !is_table(name) && !is_copy
    };
    objects.into_iter().filter(is_wanted).collect()
}

/// The part of a path up to its last slash, and the rest.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_and_logs_are_chosen_by_their_names() {
        let object = |name: &str, bytes| Found {
            path: format!("s3://bucket/{name}"),
            bytes,
            modified: 0,
        };
        let chosen = choose(vec![
            object("a/vmcore", 10),
            object("a/vmcore-dmesg.txt", 10),
            object("b/vmcore-dmesg.txt", 10),
            object("b/.hidden", 10),
            object("c/dump.202611", 10),
            object("c/dmesg.202611", 10),
            object("d/empty", 0),
            object("d/crashes-00000-of-00001.parquet", 10),
            object("d/console", 10),
        ]);
        let names: Vec<_> = chosen.iter().map(|object| &object.path[12..]).collect();
        assert_eq!(
            names,
            [
                "a/vmcore",
                "b/vmcore-dmesg.txt",
                "c/dump.202611",
                "d/console"
            ]
        );
    }
}
