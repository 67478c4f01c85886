//! `bigiron mem create`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bigiron_helpers::Stop;
use bigiron_memory::segment::{Kind, NodeSample, Request, Segment, State};
use serde::Serialize;

use crate::arguments::memory::{CreateArguments, Kind as Wanted};
use crate::progress::Line;
use crate::summary;
use crate::tell::tell;
use crate::{signals, size};

/// Number of pages whose nodes are looked up.
const SAMPLES: usize = 4096;

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<PathBuf>,
    bytes: u64,
    bytes_of_stripe: u64,
    page_size: u64,
    resident_bytes: u64,
    huge_bytes: u64,
    locked: bool,
    seconds: f64,
    populate_seconds: f64,
    bytes_per_second: f64,
    helpers: usize,
    /// Sampled pages of each node.
    nodes: BTreeMap<usize, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_kept: Option<bool>,
}

/// Creates a segment and leaves it in the system.
pub fn run(arguments: &CreateArguments) -> anyhow::Result<ExitCode> {
    let request = request(arguments)?;
    let stop = Stop::new();
    signals::watch(&stop)?;
    let mut line = Line::new("Create", arguments.size, arguments.output.quiet);
    let segment = Segment::create(&request, &mut |done| {
        super::display::watch(&mut line, &stop, done)
    })?;
    drop(line);
    let state = segment.state().unwrap_or_default();
    // Fails without NUMA, and where move_pages is not permitted.
    let placement = segment.placement(SAMPLES).ok();
    if arguments.output.json {
        let report = report(&segment, &request, state, placement);
        summary::print(&serde_json::to_string_pretty(&report)?, false)?;
        return Ok(ExitCode::SUCCESS);
    }
    summary::print(&names(&segment), false)?;
    if !arguments.output.quiet {
        tell!("{}", describe(&segment, state, placement.as_ref()));
    }
    if placement.and_then(|placement| placement.kept) == Some(false) {
        tell!("bigiron: warning: some pages are on other nodes than requested");
    }
    Ok(ExitCode::SUCCESS)
}

fn request(arguments: &CreateArguments) -> anyhow::Result<Request> {
    let name = arguments.name.as_deref();
    let wanted = arguments.kind.unwrap_or(match name {
        None => Wanted::Sysv,
        Some(name) if is_plain_name(name) => Wanted::Posix,
        Some(_) => Wanted::File,
    });
    let kind = match (wanted, name) {
        (Wanted::Sysv, None) => Kind::SystemV { key: arguments.key },
        (Wanted::Sysv, Some(_)) => {
            bail!("a System V segment has no name; use --key, or neither")
        }
        _ if arguments.key.is_some() => bail!("--key is for System V segments; others have a NAME"),
        (_, None) => bail!("this --kind needs a NAME"),
        (Wanted::Posix, Some(name)) => Kind::Posix {
            name: name
                .to_str()
                .context("NAME: expected text in UTF-8")?
                .to_owned(),
        },
        (Wanted::Hugetlbfs, Some(name)) => Kind::File {
            path: in_hugetlbfs(name)?,
        },
        (Wanted::File, Some(name)) => Kind::File {
            path: name.to_owned(),
        },
    };
    if arguments.lock && !matches!(kind, Kind::SystemV { .. }) {
        bail!(
            "--lock is for System V segments: other memory is locked by those who have it mapped, \
             and only as long"
        );
    }
    Ok(Request {
        mode: arguments.mode,
        huge: arguments.huge,
        lock: arguments.lock,
        stripes: arguments.stripes.into(),
        numa: arguments.numa.clone(),
        settings: arguments.helpers.settings(),
        ..Request::new(kind, usize::try_from(arguments.size)?)
    })
}

/// `name` or `/name`.
fn is_plain_name(name: &Path) -> bool {
    let text = name.to_string_lossy();
    !text.strip_prefix('/').unwrap_or(&text).contains('/')
}

fn in_hugetlbfs(name: &Path) -> anyhow::Result<PathBuf> {
    let path = if is_plain_name(name) && !name.is_absolute() {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let directory = fields.next()?;
            (fields.next() == Some("hugetlbfs")).then(|| PathBuf::from(directory))
        });
        let mount = mount.context("no hugetlbfs is mounted; mount -t hugetlbfs none DIR")?;
        mount.join(name)
    } else {
        name.to_owned()
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_huge = rustix::fs::statfs(directory).is_ok_and(|state| {
        // HUGETLBFS_MAGIC of include/uapi/linux/magic.h.
        state.f_type as u64 & 0xffff_ffff == 0x9584_58f6
    });
    if !is_huge {
        bail!("{}: not on hugetlbfs", path.display());
    }
    Ok(path)
}

/// Returns the id, or the paths, one per line.
fn names(segment: &Segment) -> String {
    if let Some(id) = segment.id() {
        return id.to_string();
    }
    let paths = segment.paths().iter();
    let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    names.join("\n")
}

fn describe(segment: &Segment, state: State, placement: Option<&NodeSample>) -> String {
    let bytes = segment.region().length() as u64;
    let made = segment.made();
    let mut text = super::display::rate(bytes, made.elapsed);
    text += &match made.helpers {
        1 => ", by one thread".to_owned(),
        helpers => format!(", by {helpers} helpers"),
    };
    let percent = state.huge * 100 / bytes.max(1);
    text += &match percent {
        0 => format!("; pages of {}", size::format(segment.page_size() as u64)),
        percent => format!("; {percent}% in huge pages"),
    };
    if let Some(placement) = placement {
        let all: usize = placement.nodes.values().sum();
        for (node, pages) in &placement.nodes {
            text += &format!("; {}% on node {node}", pages * 100 / all.max(1));
        }
    }
    text
}

fn report(
    segment: &Segment,
    request: &Request,
    state: State,
    placement: Option<NodeSample>,
) -> Report {
    let bytes = segment.region().length() as u64;
    let made = segment.made();
    let (kind, key) = match request.kind {
        Kind::SystemV { key } => ("sysv", key),
        Kind::Posix { .. } => ("posix", None),
        Kind::File { .. } => ("file", None),
        Kind::Memfd { .. } => ("memfd", None),
        Kind::Anonymous => ("anonymous", None),
    };
    let kept = placement.as_ref().and_then(|placement| placement.kept);
    Report {
        kind,
        id: segment.id(),
        key,
        files: segment.paths().to_vec(),
        bytes,
        bytes_of_stripe: segment.bytes_of_stripe() as u64,
        page_size: segment.page_size() as u64,
        resident_bytes: state.resident,
        huge_bytes: state.huge,
        locked: request.lock,
        seconds: made.elapsed.as_secs_f64(),
        populate_seconds: made.populating.as_secs_f64(),
        bytes_per_second: bytes as f64 / made.elapsed.as_secs_f64().max(1e-9),
        helpers: made.helpers,
        nodes: placement
            .map(|placement| placement.nodes)
            .unwrap_or_default(),
        policy_kept: kept,
    }
}
