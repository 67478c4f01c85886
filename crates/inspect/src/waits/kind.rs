//! What a task can wait for, and where its waiter is.

use serde::Serialize;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// struct mutex.
    Mutex,
    /// struct rw_semaphore.
    Rwsem,
    /// struct rt_mutex_base.
    RtMutex,
    /// struct semaphore.
    Semaphore,
    /// struct completion.
    Completion,
    /// The end of a work item (flush_work).
    Work,
    /// struct wait_queue_head.
    WaitQueue,
    /// A bit of a page: that it is unlocked, or written back.
    Page,
    /// A bit of a struct buffer_head: that it is unlocked.
    Buffer,
    /// A bit of any word (wait_on_bit).
    Bit,
    /// A change of any variable (wait_var_event).
    Variable,
    /// A futex whose owner the kernel knows (PTHREAD_PRIO_INHERIT).
    Futex,
}

impl WaitKind {
    /// Returns true for what one task has at a time, or several readers: a task that waits for it
    /// waits for others, also when it may be interrupted.
    pub fn is_lock(self) -> bool {
        !matches!(
            self,
            Self::WaitQueue | Self::Completion | Self::Bit | Self::Variable
        )
    }

    /// The kind in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwsem => "rwsem",
            Self::RtMutex => "rt_mutex",
            Self::Semaphore => "semaphore",
            Self::Completion => "completion",
            Self::Work => "work item",
            Self::WaitQueue => "wait queue",
            Self::Page => "page",
            Self::Buffer => "buffer",
            Self::Bit => "bit",
            Self::Variable => "variable",
            Self::Futex => "futex",
        }
    }
}

/// A kind of object with a list of waiters, each of which is on its task's stack.
#[derive(Debug)]
pub struct QueueKind {
    /// Kind.
    pub kind: WaitKind,
    /// Beginnings of the names of the functions in whose frame the waiter is; empty if any
    /// function may have it.
    pub functions: &'static [&'static str],
    /// The waiter: its struct, its link, and its pointer to the task.
    pub waiter: [&'static str; 3],
    /// Its member that points to a function, where it has one: that tells it from the head.
    pub function: Option<&'static str>,
    /// The object: its struct, and the head of its list.
    pub object: [&'static str; 2],
}

/// The kinds, in the order in which they are tried.
pub const QUEUE_KINDS: &[QueueKind] = &[
    // kernel/locking/mutex.c.
    QueueKind {
        kind: WaitKind::Mutex,
        functions: &["__mutex_lock", "__ww_mutex_lock", "mutex_lock"],
        waiter: ["mutex_waiter", "list", "task"],
        function: None,
        object: ["mutex", "wait_list"],
    },
    // kernel/locking/rwsem.c.
    QueueKind {
        kind: WaitKind::Rwsem,
        functions: &["rwsem_down_", "__rwsem_down_", "down_read", "down_write"],
        waiter: ["rwsem_waiter", "list", "task"],
        function: None,
        object: ["rw_semaphore", "wait_list"],
    },
    // kernel/locking/semaphore.c.
    QueueKind {
        kind: WaitKind::Semaphore,
        functions: &["__down", "___down", "down"],
        waiter: ["semaphore_waiter", "list", "task"],
        function: None,
        object: ["semaphore", "wait_list"],
    },
    // kernel/sched/completion.c, with a simple wait queue since 5.7 (commit a5c6234e1028).
    QueueKind {
        kind: WaitKind::Completion,
        functions: &[
            "wait_for_completion",
            "__wait_for_common",
            "wait_for_common",
            "do_wait_for_common",
        ],
        waiter: ["swait_queue", "task_list", "task"],
        function: None,
        object: ["completion", "wait.task_list"],
    },
    // wait_event in any function (include/linux/wait.h).
    QueueKind {
        kind: WaitKind::WaitQueue,
        functions: &[],
        waiter: ["wait_queue_entry", "entry", "private"],
        function: Some("func"),
        object: ["wait_queue_head", "head"],
    },
];
