//! The objects below a prefix.

use anyhow::Context;
use bigiron_fleet::Found;
use bigiron_objects::{Listed, Location, Remote, Scheme};

use super::{helper, list};

/// Finds the objects that `names` name: each an object, or a prefix of objects, which is a
/// directory as the object's users see it.
///
/// # Errors
///
/// A bucket cannot be listed.
pub fn find(names: &[String]) -> anyhow::Result<Vec<Found>> {
    let mut remotes: Vec<(Scheme, Remote)> = Vec::new();
    let mut found = Vec::new();
    for name in names {
        let location: Location = name.parse()?;
        if remotes.iter().all(|(scheme, _)| *scheme != location.scheme) {
            remotes.push((location.scheme, helper::start(location.scheme)?));
        }
        let Some((_, remote)) = remotes
            .iter()
            .find(|(scheme, _)| *scheme == location.scheme)
        else {
            continue;
        };
        if !location.key.is_empty() && !location.key.ends_with('/') {
            let page = remote.list(&location, None)?;
            // The shortest key is the first.
            if let Some(object) = page
                .objects
                .first()
                .filter(|object| object.key == location.key)
            {
                found.push(entry(&location, object)?);
                continue;
            }
        }
        let objects = list_below(remote, &location)?;
        if objects.is_empty() {
            // Its row will say that there is none.
            found.push(Found {
                path: name.clone(),
                bytes: 0,
                modified: 0,
            });
        }
        found.extend(bigiron_fleet::choose(objects));
    }
    Ok(found)
}

/// All objects below a prefix.
fn list_below(remote: &Remote, prefix: &Location) -> anyhow::Result<Vec<Found>> {
    let key = match prefix.key.as_str() {
        "" => String::new(),
        key => format!("{}/", key.trim_end_matches('/')),
    };
    let prefix = prefix.with_key(&key);
    let objects = list(remote, &prefix)?;
    objects
        .iter()
        .map(|object| entry(&prefix, object))
        .collect()
}

fn entry(prefix: &Location, object: &Listed) -> anyhow::Result<Found> {
    let path = prefix.with_key(&object.key).to_string();
    Ok(Found {
        bytes: i64::try_from(object.size)
            .with_context(|| format!("{path}: its size is impossible"))?,
        modified: object.modified,
        path,
    })
}
