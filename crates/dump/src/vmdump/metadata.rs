//! Metadata of a dump, as JSON in the dump itself.

use bigiron_format::vmdump::VmdumpHeader;
use serde_json::json;

use crate::kept_pages::KeptPages;
use crate::summary::Summary;

/// Encodes the metadata. Omits times if the dump's identity is given, so that the same source
/// results in the same bytes.
pub(super) fn encode(
    kept: &KeptPages,
    header: &VmdumpHeader,
    compression: &str,
    summary: &Summary,
) -> Vec<u8> {
    let (job, plan) = (kept.job, &kept.plan);
    let names = &header.utsname.names;
    let excluded = &plan.excluded;
    let phases = summary
        .phases
        .iter()
        .map(|phase| json!({ "name": phase.name, "seconds": phase.time.as_secs_f64() }));
    let lost: Vec<u64> = summary.lost_frames.iter().map(|frame| frame.0).collect();
    let mut metadata = json!({
        "program": concat!("bigiron ", env!("CARGO_PKG_VERSION")),
        "kernel": {
            "sysname": names[0], "nodename": names[1], "release": names[2],
            "version": names[3], "machine": names[4], "domainname": names[5],
        },
        "dump_level": header.dump_level,
        "compression": compression,
        "begin": header.time,
        "pages": {
            "ram": plan.ram,
            "dumped": plan.kept,
            "zero": summary.zero,
            "lost": summary.lost,
            "excluded": {
                "cache": excluded.cache,
                "cache_private": excluded.cache_private,
                "user": excluded.user,
                "free": excluded.free,
                "unaccepted": excluded.unaccepted,
                "hwpoison": excluded.hw_poison,
                "offline": excluded.offline,
                "not_in_source": excluded.absent,
                "device": excluded.device,
            },
        },
        "lost_frames": lost,
        "source_damage": job.subject.damage(),
        "warnings": summary.warnings,
    });
    // Of few dumps.
    if let Some(counts) = metadata.pointer_mut("/pages/excluded")
        && let Some(counts) = counts.as_object_mut()
    {
        for (name, count) in [
            ("other_owner", excluded.owner),
            ("struct_pages", excluded.struct_pages),
            ("rules", excluded.rules),
        ] {
            if count > 0 {
                counts.insert(name.into(), count.into());
            }
        }
    }
    if job.options.identity.is_none()
        && let Some(fields) = metadata.as_object_mut()
    {
        fields.insert("phases".into(), phases.collect());
        let helpers = summary.helper_times.iter();
        let helpers = helpers.map(|time| json!(time.as_secs_f64()));
        fields.insert("helper_seconds".into(), helpers.collect());
        if let Some(waits) = summary.waits {
            let waits = json!({
                "for_output": waits.for_output.as_secs_f64(),
                "for_helpers": waits.for_helpers.as_secs_f64(),
            });
            fields.insert("waits".into(), waits);
        }
    }
    serde_json::to_vec(&metadata).unwrap_or_default()
}
