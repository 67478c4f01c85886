//! Segments, compared with the kernel's reports about them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use bigiron_memory::segment::{Huge, Kind, Numa, Removal, Request, Segment, SegmentError, Target};
use bigiron_memory::{Errno, Settings};
use rustix::param::page_size;

const MIB: usize = 1 << 20;

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(page_size())
}

fn create(request: &Request) -> Result<Segment, SegmentError> {
    Segment::create(request, &mut |_| ControlFlow::Continue(()))
}

fn system_v(bytes: usize) -> Request {
    Request::new(Kind::SystemV { key: None }, bytes)
}

fn posix(name: &str, bytes: usize) -> Request {
    let name = format!("bigiron-test-{}-{name}", std::process::id());
    Request::new(Kind::Posix { name }, bytes)
}

/// Returns the path of a POSIX segment, or the common start of its stripes' paths.
fn place(request: &Request) -> String {
    match &request.kind {
        Kind::Posix { name } => format!("/dev/shm/{name}"),
        other => panic!("{other:?}"),
    }
}

/// Returns a segment's columns in the kernel's list: mode, size, attachments, resident bytes.
fn listed(id: i32) -> Option<(u32, usize, u32, usize)> {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let id = id.to_string();
    let mut lines = list.lines().map(|line| line.split_whitespace().collect());
    let fields: Vec<_> = lines.find(|fields: &Vec<&str>| fields[1] == id)?;
    Some((
        u32::from_str_radix(fields[2], 8).unwrap(),
        fields[3].parse().unwrap(),
        fields[6].parse().unwrap(),
        fields[14].parse().unwrap(),
    ))
}

fn byte(segment: &Segment, at: usize) -> *mut u8 {
    assert!(at < segment.region().length());
    segment.region().pointer().cast::<u8>().wrapping_add(at)
}

#[test]
fn system_v_segment_is_populated_and_destroyed() {
    for huge in [Huge::Auto, Huge::Never] {
        let mut request = system_v(65 * MIB + 1);
        (request.huge, request.mode) = (huge, 0o640);
        let segment = create(&request).unwrap();
        let id = segment.id().unwrap();
        let bytes = 65 * MIB + page_size();
        // The size is the requested one in whole pages.
        assert_eq!(listed(id), Some((0o640, bytes, 1, bytes)));
        let state = segment.state().unwrap();
        assert_eq!(state.resident, bytes as u64);
        if huge == Huge::Never {
            assert_eq!(state.huge, 0);
        }
        let removed = segment.destroy(&Removal::default()).unwrap();
        assert_eq!((removed.bytes, removed.attached), (bytes as u64, 0));
        assert_eq!(listed(id), None);
    }
}

/// Returns a field in bytes of the mapping in /proc/self/smaps that begins with the segment.
fn smaps(segment: &Segment, name: &str) -> usize {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", segment.region().start());
    let (_, of_it) = smaps.split_once(&head).unwrap();
    let line = of_it.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn new_pages_are_dirty() {
    for huge in [Huge::Auto, Huge::Never] {
        for mut request in [system_v(16 * MIB), posix("dirty", 16 * MIB)] {
            request.huge = huge;
            let segment = create(&request).unwrap();
            assert_eq!(smaps(&segment, "Private_Dirty:"), 16 * MIB, "{request:?}");
            segment.destroy(&Removal::default()).unwrap();
        }
    }
}

/// A tmpfs of a given number of MiB, unmounted on drop.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mut mount = std::process::Command::new("mount");
        let size = format!("size={mebibytes}m");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(at);
        let output = mount.output().ok()?;
        output.status.success().then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn full_disk_is_an_error_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), 700) else {
        println!("skipped: may not mount a file system");
        return;
    };
    let path = disk.0.join("memory");
    let request = Request::new(Kind::File { path: path.clone() }, 600 * MIB);
    let other = disk.0.join("other");
    let failed = Segment::create(&request, &mut |done| {
        if done < 300 * MIB {
            fs::write(&other, vec![1; 300 * MIB]).unwrap();
        }
        ControlFlow::Continue(())
    });
    let failed = failed.unwrap_err();
    assert_eq!(failed.errno(), Errno::FAULT);
    assert!(failed.to_string().contains("is full"), "{failed}");
    let left: Vec<_> = fs::read_dir(&disk.0).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    fs::remove_file(&other).unwrap();
    assert_eq!(
        rustix::fs::statvfs(&disk.0).unwrap().f_bavail * page_size() as u64,
        700 << 20
    );
    let mut request = request;
    request.bytes = 701 * MIB;
    let refused = create(&request).unwrap_err();
    assert_eq!(refused.errno(), Errno::NOSPC);
    assert!(refused.to_string().contains("remount,size="), "{refused}");
}

#[test]
fn dropped_segment_stays_for_other_processes() {
    let segment = create(&system_v(8 * MIB)).unwrap();
    let id = segment.id().unwrap();
    drop(segment);
    assert_eq!(listed(id).map(|listed| listed.2), Some(0));
    let target = Target::find(&id.to_string()).unwrap();
    assert_eq!(target, Target::SystemV(id));
    target.remove(&Removal::default()).unwrap();
    assert_eq!(listed(id), None);
    let gone = Target::find(&id.to_string()).unwrap_err().to_string();
    assert!(gone.contains("ipcs -m"), "{gone}");
}

#[test]
fn existing_key_is_refused() {
    let key = 0x4269_0000 | (std::process::id() & 0xffff) as i32;
    let mut request = system_v(MIB);
    request.kind = Kind::SystemV { key: Some(key) };
    let segment = create(&request).unwrap();
    let second = create(&request).unwrap_err();
    assert_eq!(second.errno(), Errno::EXIST);
    let second = second.to_string();
    assert!(second.contains(&format!("{key:#x}")), "{second}");
    let found = Target::find(&format!("{key:#x}")).unwrap();
    assert_eq!(found, Target::SystemV(segment.id().unwrap()));
    segment.destroy(&Removal::default()).unwrap();
}

#[test]
fn posix_segment_appears_complete_and_is_shared() {
    for stripes in [1, 3] {
        let mut request = posix(&format!("posix{stripes}"), 41 * MIB);
        (request.stripes, request.mode) = (stripes, 0o664);
        let place = place(&request);
        let begun = |path: &std::path::PathBuf| path.to_str().unwrap().starts_with(&place);
        let names = || {
            let all = fs::read_dir("/dev/shm").unwrap().flatten();
            all.map(|entry| entry.path()).filter(begun).count()
        };
        let segment = Segment::create(&request, &mut |_| {
            assert_eq!(names(), 0);
            ControlFlow::Continue(())
        });
        let segment = segment.unwrap();
        let paths = segment.paths().to_vec();
        assert_eq!((paths.len(), names()), (stripes, stripes));
        let each = segment.bytes_of_stripe();
        for (number, path) in paths.iter().enumerate() {
            let metadata = fs::metadata(path).unwrap();
            let expected = each.min(41 * MIB - number * each) as u64;
            assert_eq!(
                (metadata.len(), metadata.blocks() * 512),
                (expected, expected)
            );
            assert_eq!(metadata.permissions().mode() & 0o7777, 0o664);
            // SAFETY: within the segment, which this test alone uses.
            unsafe { byte(&segment, number * each + 5).write_volatile(number as u8 + 1) };
            assert_eq!(fs::read(path).unwrap()[5], number as u8 + 1);
        }
        let name = place.strip_prefix("/dev/shm/").unwrap();
        let target = Target::find(name).unwrap();
        assert_eq!(target, Target::Files(paths.clone()));
        assert_eq!(target.bytes().unwrap(), 41 * MIB as u64);
        assert_eq!(create(&request).unwrap_err().errno(), Errno::EXIST);
        segment.destroy(&Removal::default()).unwrap();
        assert_eq!(names(), 0);
    }
}

#[test]
fn memfd_segment_spans_several_memfds() {
    let kind = Kind::Memfd {
        name: "bigiron-test".into(),
    };
    let mut request = Request::new(kind, 30 * MIB);
    request.stripes = 4;
    let segment = create(&request).unwrap();
    let each = segment.bytes_of_stripe();
    assert_eq!(each, 8 * MIB);
    // SAFETY: within the segment, which this test alone uses.
    unsafe { byte(&segment, 3 * each + 9).write_volatile(7) };
    let last = segment.descriptors().nth(3).unwrap();
    let link = format!("/proc/self/fd/{}", last.as_raw_fd());
    let bytes = fs::read(&link).unwrap();
    assert_eq!((bytes.len(), bytes[9]), (6 * MIB, 7));
    assert_eq!(segment.state().unwrap().resident, 30 * MIB as u64);
    let mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.matches("/memfd:bigiron-test ").count()
    };
    assert_eq!(mapped(), 4);
    segment.destroy(&Removal::default()).unwrap();
    assert_eq!(mapped(), 0);
}

#[test]
fn anonymous_memory_is_populated_and_locked_on_request() {
    let mut request = Request::new(Kind::Anonymous, 4 * MIB);
    request.populate = false;
    let mut segment = create(&request).unwrap();
    assert_eq!(segment.state().unwrap().resident, 0);
    segment.lock(&mut |_| ControlFlow::Continue(())).unwrap();
    let all = 4 * MIB as u64;
    let state = segment.state().unwrap();
    assert_eq!((state.resident, state.locked), (all, all));
    segment.unlock().unwrap();
    assert_eq!(segment.state().unwrap().locked, 0);
    segment.destroy(&Removal::default()).unwrap();
}

#[test]
fn interrupted_creation_leaves_nothing() {
    let key = 0x4270_0000 | (std::process::id() & 0xffff) as i32;
    let mut request = system_v(600 * MIB);
    request.kind = Kind::SystemV { key: Some(key) };
    let result = Segment::create(&request, &mut |_| ControlFlow::Break(()));
    assert_eq!(result.unwrap_err().errno(), Errno::INTR);
    assert!(Target::find(&format!("{key:#x}")).is_err());
    let request = posix("interrupted", 600 * MIB);
    let result = Segment::create(&request, &mut |_| ControlFlow::Break(()));
    assert_eq!(result.unwrap_err().errno(), Errno::INTR);
    assert!(!Path::new(&place(&request)).exists());
}

#[test]
fn invalid_requests_are_refused_with_a_valid_alternative() {
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = system_v(MIB);
        change(&mut request);
        create(&request).unwrap_err().to_string()
    };
    let pool = Huge::Pool(2 * MIB);
    let nodes = "/sys/devices/system/node";
    for (said, part) in [
        (with(&|request| request.bytes = 0), "above 0"),
        (
            with(&|request| request.bytes = usize::MAX),
            "whole address space",
        ),
        (with(&|request| request.bytes = 1 << 60), "allows"),
        (with(&|request| request.stripes = 2), "POSIX memory, memfd"),
        (with(&|request| request.stripes = 65), "1 to 64"),
        (
            with(&|request| request.huge = Huge::Pool(3 * MIB)),
            "/sys/kernel/mm/hugepages",
        ),
        (
            with(&|request| {
                *request = posix("pool", MIB);
                request.huge = pool;
            }),
            "a file on hugetlbfs",
        ),
        (
            with(&|request| *request = posix("a/b", MIB)),
            "without another",
        ),
        (
            with(&|request| request.numa = Numa::Bind(vec![1000])),
            nodes,
        ),
    ] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    let pages = fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap();
    if pages.trim() == "0" {
        let said = with(&|request| (request.huge, request.bytes) = (pool, 64 * MIB));
        assert!(said.contains("nr_hugepages"), "{said}");
    } else {
        println!("skipped: there are huge pages in the pool");
    }
}

#[test]
fn pages_are_on_the_nodes_of_the_policy() {
    let mut request = system_v(16 * MIB);
    request.numa = Numa::Bind(vec![0]);
    let segment = create(&request).unwrap();
    let placement = segment.placement(256).unwrap();
    let nodes: Vec<_> = placement.nodes.into_iter().collect();
    assert_eq!((nodes, placement.absent), (vec![(0, 256)], 0));
    assert_eq!(placement.kept, Some(true));
    segment.destroy(&Removal::default()).unwrap();
}

#[test]
fn prewarming_populates_pages_and_changes_no_data() {
    let mut request = posix("prewarm", 20 * MIB);
    request.populate = false;
    let segment = create(&request).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, vec![3; 5 * MIB + 100]).unwrap();
    let changed = fs::metadata(&file).unwrap().modified().unwrap();
    let sizes = [(&segment.paths()[0], 20 * MIB), (&file, 5 * MIB + 100)];
    for (path, size) in sizes {
        let target = Target::find(path.to_str().unwrap()).unwrap();
        let mut done = 0;
        let prewarmed = target.prewarm(Huge::Auto, &Settings::default(), &mut |bytes| {
            done = bytes;
            ControlFlow::Continue(())
        });
        assert_eq!(prewarmed.unwrap().bytes, size as u64);
        assert_eq!(whole_pages(done), whole_pages(size));
        assert_eq!(fs::metadata(path).unwrap().len(), size as u64);
    }
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), changed);
    // SAFETY: within the segment.
    assert_eq!(unsafe { byte(&segment, 20 * MIB - 1).read_volatile() }, 0);
    segment.destroy(&Removal::default()).unwrap();
    let removed = Target::Files(vec![file.clone()]).remove(&Removal::default());
    let is_memory = bigiron_memory::segment::is_memory(&file);
    assert_eq!((removed.is_ok(), file.exists()), (is_memory, !is_memory));
    let directory = Target::Files(vec![directory.path().into()]);
    let mut go_on = |_| ControlFlow::Continue(());
    let nothing = directory.prewarm(Huge::Auto, &Settings::default(), &mut go_on);
    assert!(nothing.is_err());
}
