//! A tree that changes: neither this program nor the kernel caches it.

/// A tree whose directories and files appear, disappear and change.
///
/// Numbers are inode numbers: the root is 1, all others are above [`LAST_RESERVED`]. A number
/// always means the same file, whether it exists or not. Threads call these methods
/// concurrently.
pub trait Live: Send + Sync + 'static {
    /// Returns true if any file can be written.
    fn is_writable(&self) -> bool {
        false
    }

    /// Returns the kind of the file `number`.
    ///
    /// # Errors
    ///
    /// [`RefusalKind::Gone`] if it does not exist.
    fn look(&self, number: u64) -> Result<Kind, Refusal>;

    /// Looks up `name` in `directory`; returns its number and kind.
    ///
    /// # Errors
    ///
    /// [`RefusalKind::Gone`] if there is no such name.
    fn find(&self, directory: u64, name: &str) -> Result<(u64, Kind), Refusal>;

    /// Lists `directory`.
    ///
    /// # Errors
    ///
    /// It does not exist, or cannot be listed.
    fn list(&self, directory: u64) -> Result<Listed, Refusal>;

    /// Returns the present contents of `file`. An open file keeps them until it is closed.
    ///
    /// # Errors
    ///
    /// It does not exist, or cannot be read.
    fn read(&self, file: u64) -> Result<Vec<u8>, Refusal>;

    /// Handles one write to `file`.
    ///
    /// # Errors
    ///
    /// The file does not accept it, or may not be written.
    fn write(&self, file: u64, _text: &[u8]) -> Result<(), Refusal> {
        Err(Refusal {
            why: RefusalKind::ReadOnly,
            reason: format!("file {file} cannot be written"),
        })
    }
}

/// Highest number reserved for `.` and `..` in listings.
pub const LAST_RESERVED: u64 = 2;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// True if it can be written.
        writable: bool,
        /// Current size. Reads return the contents from the time of opening; but since Linux
        /// 6.5 sendfile(2), which some programs use to copy, stops at this size
        /// (filemap_splice_read, mm/filemap.c).
        size: u64,
    },
}

/// The contents of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Number of the parent directory; the root is its own parent.
    pub parent: u64,
    /// Name, number, and true for a directory, in order of numbers: a listing continues after a
    /// number, so that entries are neither skipped nor repeated when others appear or
    /// disappear.
    pub entries: Vec<(String, u64, bool)>,
}

/// Error class of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The file does not exist: ENOENT. Not reported as a message.
    Gone,
    /// The file does not accept what was written: EINVAL.
    Invalid,
    /// The operation is not permitted: EACCES.
    Denied,
    /// The file cannot be written: EROFS.
    ReadOnly,
    /// The file changed meanwhile: EAGAIN.
    Changed,
    /// Anything else: EIO.
    Failed,
}

/// A refused request, with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error class.
    pub why: RefusalKind,
    /// The reason, as text.
    pub reason: String,
}

impl Refusal {
    /// Returns the refusal for a missing file.
    pub fn gone() -> Self {
        Self {
            why: RefusalKind::Gone,
            reason: "no such file".into(),
        }
    }
}
