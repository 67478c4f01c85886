//! Who has a lock.

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::kind::WaitKind;
use super::task_name::TaskName;
use crate::json::hexadecimal;
use crate::program::Program;

/// Flags in the owner word of a mutex (kernel/locking/mutex.c) and of an rwsem.
const OWNER_FLAGS: u64 = 7;
/// RWSEM_READER_OWNED.
const READER_OWNED: u64 = 1;
/// RWSEM_WRITER_LOCKED, and the number of readers above RWSEM_READER_SHIFT.
const WRITER_LOCKED: u64 = 1;
const READER_SHIFT: u32 = 8;
/// RT_MUTEX_HAS_WAITERS.
const HAS_WAITERS: u64 = 1;

/// A task that has what others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The task; `None` if there is no task at the address any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// Address of its task_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// By what it is known.
    pub holds: Holds,
}

/// By what a holder is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// The lock names it as its owner.
    Owner,
    /// The rwsem names it as the last reader that took it. It may have released it since.
    LastReader,
    /// The address of the lock is on its stack, and it does not wait for it.
    OnStack,
    /// It executes the work item, or another one of the same queue that comes first.
    Worker,
}

impl Holds {
    /// Returns true if the kernel's own data say so.
    pub fn is_certain(self) -> bool {
        matches!(self, Self::Owner | Self::Worker)
    }

    /// The reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Self::Owner => "the lock names it as its owner",
            Self::LastReader => "the rwsem names it as the last reader that took it",
            Self::OnStack => "the address of the lock is on its stack",
            Self::Worker => "it executes the work item, or one that comes first",
        }
    }
}

/// What a lock says of itself.
#[derive(Clone, Debug, Default)]
pub struct Owned {
    /// Its state, in words.
    pub state: Option<String>,
    /// Its owner, and by what that is known.
    pub owner: Option<(VirtAddr, Holds)>,
}

/// Reads the owner of a lock.
pub fn owner(program: &Program, kind: WaitKind, lock: VirtAddr) -> Owned {
    match kind {
        WaitKind::Mutex => of_mutex(program, lock),
        WaitKind::Rwsem => of_rwsem(program, lock),
        WaitKind::RtMutex | WaitKind::Futex => of_rt_mutex(program, lock),
        WaitKind::Semaphore => Owned {
            state: program
                .value(lock, "semaphore", "count")
                .ok()
                .map(|count| format!("count {count}")),
            ..Owned::default()
        },
        WaitKind::Completion
        | WaitKind::Work
        | WaitKind::WaitQueue
        | WaitKind::Page
        | WaitKind::Buffer
        | WaitKind::Bit
        | WaitKind::Variable => Owned::default(),
    }
}

fn task_in(word: u64) -> Option<VirtAddr> {
    let address = word & !OWNER_FLAGS;
    (address != 0).then_some(VirtAddr(address))
}

fn of_mutex(program: &Program, lock: VirtAddr) -> Owned {
    let Ok(word) = program.value(lock, "mutex", "owner") else {
        return Owned::default();
    };
    Owned {
        state: task_in(word).is_none().then(|| "free".to_owned()),
        owner: task_in(word).map(|task| (task, Holds::Owner)),
    }
}

fn of_rwsem(program: &Program, lock: VirtAddr) -> Owned {
    let (Ok(count), Ok(word)) = (
        program.value(lock, "rw_semaphore", "count"),
        program.value(lock, "rw_semaphore", "owner"),
    ) else {
        return Owned::default();
    };
    let readers = count >> READER_SHIFT;
    if count & WRITER_LOCKED != 0 {
        return Owned {
            state: Some("taken by a writer".into()),
            owner: task_in(word).map(|task| (task, Holds::Owner)),
        };
    }
    if readers == 0 {
        return Owned {
            state: Some("free".into()),
            ..Owned::default()
        };
    }
    let last = task_in(word).filter(|_| word & READER_OWNED != 0);
    Owned {
        state: Some(format!(
            "taken by {readers} reader{}",
            if readers == 1 { "" } else { "s" }
        )),
        owner: last.map(|task| (task, Holds::LastReader)),
    }
}

fn of_rt_mutex(program: &Program, lock: VirtAddr) -> Owned {
    let Ok(word) = program.value(lock, "rt_mutex_base", "owner") else {
        return Owned::default();
    };
    let task = word & !HAS_WAITERS;
    Owned {
        state: (task == 0).then(|| "free".to_owned()),
        owner: (task != 0).then_some((VirtAddr(task), Holds::Owner)),
    }
}
